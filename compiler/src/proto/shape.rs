//! Shapes and layouts.

use super::message::{self, Ids, Split};
use super::{malformed, unsupported};
use crate::Result;
use crate::text::MAX_RANK;
use brolga_runtime::{ArrayShape, ElementType, Layout, PaddingValue, Shape};

/// The numbers of what XLA counts among element types but is none.
const TUPLE: i32 = 13;
const OPAQUE: i32 = 14;
const TOKEN: i32 = 17;
const BUFFER: i32 = 34;

/// Words of a dimension's level in the layout of a sparse array, by number.
const LEVELS: [&str; 4] = ["D", "C", "S", "H"];

/// The element type with XLA's number.
pub(super) fn element_type(number: i32) -> Result<ElementType> {
    match number {
        35 => Err(unsupported("", "the element type f6e3m2fn")),
        36 => Err(unsupported("", "the element type f6e2m3fn")),
        _ => u8::try_from(number)
            .ok()
            .and_then(ElementType::from_code)
            .ok_or_else(|| malformed("", format!("shape: expected the number of an element type, found {number}"))),
    }
}

/// Reads a shape. The decoder has limited how deep tuples nest.
pub(super) fn read(shape: &message::Shape) -> Result<Shape> {
    Ok(match shape.element_type {
        TUPLE => Shape::Tuple(shape.elements.iter().map(read).collect::<Result<_>>()?),
        OPAQUE => Shape::Opaque,
        TOKEN => Shape::Token,
        BUFFER => match &shape.elements[..] {
            [inner] => Shape::Buffer(array(inner)?),
            other => {
                return Err(malformed("", format!("shape: expected one array in a buffer, found {}", other.len())));
            }
        },
        _ => Shape::Array(array(shape)?),
    })
}

/// Reads the shape of an array.
pub(super) fn array(shape: &message::Shape) -> Result<ArrayShape> {
    let ty = element_type(shape.element_type)?;
    let rank = shape.dims.len();
    if rank > MAX_RANK {
        return Err(malformed("", format!("shape: expected at most {MAX_RANK} dimensions, found {rank}")));
    }
    if let Some((&size, _)) = shape.dims.iter().zip(dynamic(shape)).find(|(d, _)| **d < 0) {
        // XLA marks a dimension without bound by the least integer.
        if size == i64::MIN {
            return Err(unsupported("", "unbounded dynamic dimensions"));
        }
        return Err(malformed("", format!("shape: expected the size of a dimension, found {size}")));
    }
    let mut out = ArrayShape::new(ty, shape.dims.clone());
    out.dynamic = dynamic(shape).collect();
    if !out.is_addressable() {
        return Err(unsupported("", format!("an array of 2^63 bytes or more, {out:#}")));
    }
    if let Some(layout) = &shape.layout {
        out.layout = Some(self::layout(layout, &out.dims)?).filter(|l| *l != Layout::default());
        if !out.is_addressable() {
            return Err(unsupported("", format!("an array of 2^63 bytes or more, {out}")));
        }
    }
    Ok(out)
}

fn dynamic(shape: &message::Shape) -> impl Iterator<Item = bool> {
    (0..shape.dims.len()).map(|d| shape.dynamic.get(d).copied().unwrap_or(false))
}

fn layout(layout: &message::Layout, dims: &[i64]) -> Result<Layout> {
    let rank = dims.len();
    let mut seen = vec![false; rank];
    let order = layout.minor_to_major.iter().map(|&d| {
        let d = usize::try_from(d).ok()?;
        let fresh = seen.get_mut(d).filter(|s| !**s)?;
        *fresh = true;
        Some(d)
    });
    let minor_to_major = order.collect::<Option<Vec<_>>>().filter(|order| order.len() == rank).ok_or_else(|| {
        malformed("", format!("layout: expected each of {rank} dimensions once, found {:?}", layout.minor_to_major))
    })?;
    if layout.physical_shape.is_some() {
        return Err(unsupported("", "the layout of a sparse array with its physical shape"));
    }
    let tiles = layout.tiles.iter().map(|t| t.ids.iter().map(|&d| Some(d).filter(|d| *d != i64::MIN)).collect());
    let mut out = Layout {
        minor_to_major,
        padded_dimensions: widths(layout, dims)?,
        padding_value: padding_value(layout)?,
        tiles: tiles.collect(),
        element_size_in_bits: layout.element_size_in_bits,
        memory_space: layout.memory_space,
        other: Vec::new(),
    };
    let mut other = |letters: &str, argument: String| out.other.push((letters.to_owned(), argument));
    if !layout.dim_level_types.is_empty() {
        let levels = layout.dim_level_types.iter().enumerate().map(|(d, &level)| {
            let word = usize::try_from(level).ok().and_then(|l| LEVELS.get(l));
            let word = word.ok_or_else(|| malformed("", format!("layout: expected a level type, found {level}")))?;
            let unique = if layout.dim_unique.get(d) == Some(&false) { "+" } else { "" };
            let ordered = if layout.dim_ordered.get(d) == Some(&false) { "~" } else { "" };
            Ok(format!("{word}{unique}{ordered}"))
        });
        other("D", levels.collect::<Result<Vec<_>>>()?.join(","));
    }
    if layout.tail_padding_alignment > 1 {
        other("L", layout.tail_padding_alignment.to_string());
    }
    if layout.index_type != 0 {
        other("#", element_type(layout.index_type)?.to_string());
    }
    if layout.pointer_type != 0 {
        other("*", element_type(layout.pointer_type)?.to_string());
    }
    match &layout.splits[..] {
        [] => {}
        [split] => {
            let indices: Vec<String> = split.indices.iter().map(i64::to_string).collect();
            other("SC", format!("{}:{}", split.dimension, indices.join(",")));
        }
        _ => return Err(unsupported("", "a layout with several split dimensions")),
    }
    if layout.metadata_prefix_bytes > 0 {
        other("M", layout.metadata_prefix_bytes.to_string());
    }
    Ok(out)
}

/// What each dimension is padded to; nothing where there is no padding.
fn widths(layout: &message::Layout, dims: &[i64]) -> Result<Vec<i64>> {
    let widths = &layout.padded_dimensions;
    let wide = widths.iter().zip(dims).all(|(width, size)| width >= size);
    if widths.is_empty() || widths.len() == dims.len() && wide {
        return Ok(widths.clone());
    }
    Err(malformed("", format!("layout: expected padded_dimensions of at least {dims:?}, found {widths:?}")))
}

fn padding_value(layout: &message::Layout) -> Result<PaddingValue> {
    let value = PaddingValue::from_code(layout.padding_value)
        .ok_or_else(|| malformed("", format!("layout: expected a padding_value, found {}", layout.padding_value)))?;
    // Without padding there is nothing to hold it.
    Ok(if layout.padded_dimensions.is_empty() { PaddingValue::Invalid } else { value })
}

/// The message of a shape.
pub(super) fn write(shape: &Shape) -> Result<message::Shape> {
    let plain = |element_type, elements| message::Shape { element_type, elements, ..Default::default() };
    Ok(match shape {
        Shape::Array(array) => write_array(array)?,
        Shape::Tuple(elements) => plain(TUPLE, elements.iter().map(write).collect::<Result<_>>()?),
        Shape::Opaque => plain(OPAQUE, Vec::new()),
        Shape::Token => plain(TOKEN, Vec::new()),
        Shape::Buffer(array) => plain(BUFFER, vec![write_array(array)?]),
    })
}

/// The message of an array's shape.
pub(super) fn write_array(array: &ArrayShape) -> Result<message::Shape> {
    let layout = match &array.layout {
        Some(layout) => Some(Box::new(write_layout(layout)?)),
        // Ranks without dimensions have one layout, which no text shows; XLA asks for it.
        None if array.rank() == 0 => {
            Some(Box::new(message::Layout { tail_padding_alignment: 1, ..Default::default() }))
        }
        None => None,
    };
    Ok(message::Shape {
        element_type: i32::from(array.ty.code()),
        dims: array.dims.clone(),
        dynamic: array.dynamic.clone(),
        layout,
        elements: Vec::new(),
    })
}

fn write_layout(layout: &Layout) -> Result<message::Layout> {
    let tiles = layout.tiles.iter().map(|tile| Ids { ids: tile.iter().map(|d| d.unwrap_or(i64::MIN)).collect() });
    let mut out = message::Layout {
        minor_to_major: layout.minor_to_major.iter().map(|&d| d as i64).collect(),
        padded_dimensions: layout.padded_dimensions.clone(),
        padding_value: layout.padding_value as u32,
        tiles: tiles.collect(),
        element_size_in_bits: layout.element_size_in_bits,
        memory_space: layout.memory_space,
        tail_padding_alignment: 1,
        ..Default::default()
    };
    for (letters, argument) in &layout.other {
        property(&mut out, letters, argument)
            .ok_or_else(|| unsupported("", format!("the property {letters}({argument}) of a layout in a message")))?;
    }
    Ok(out)
}

fn property(out: &mut message::Layout, letters: &str, argument: &str) -> Option<()> {
    let ty = |text: &str| text.trim().parse::<ElementType>().ok().map(|t| i32::from(t.code()));
    match letters {
        "D" => {
            for level in argument.split(',') {
                let word = level.trim().trim_end_matches(['+', '~']);
                out.dim_level_types.push(LEVELS.iter().position(|l| *l == word)? as i32);
                out.dim_unique.push(!level.contains('+'));
                out.dim_ordered.push(!level.contains('~'));
            }
        }
        "L" => out.tail_padding_alignment = argument.trim().parse().ok()?,
        "#" => out.index_type = ty(argument)?,
        "*" => out.pointer_type = ty(argument)?,
        "M" => out.metadata_prefix_bytes = argument.trim().parse().ok()?,
        "SC" => {
            let (dimension, indices) = argument.split_once(':')?;
            let indices = indices.split(',').map(|i| i.trim().parse().ok()).collect::<Option<_>>()?;
            out.splits.push(Split { dimension: dimension.trim().parse().ok()?, indices });
        }
        _ => return None,
    }
    Some(())
}
