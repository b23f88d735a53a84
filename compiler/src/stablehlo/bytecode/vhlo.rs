//! VHLO to StableHLO: names without their versions, attributes put together, defaults left out.

use super::{malformed, unsupported};
use crate::Result;
use crate::hlo::ConvolutionDims;
use crate::stablehlo::ir::{Attribute, Dictionary, DotAlgorithm, DotDims, Element, GatherDims, ScatterDims, Type};

/// The name of an operation without its version, and the version: `add_v1` is `add`, 1.
pub(super) fn base(name: &str) -> (&str, u32) {
    let parts = name.rsplit_once("_v").and_then(|(base, version)| Some((base, version.parse().ok()?)));
    parts.unwrap_or((name, 0))
}

/// What a function's attributes say.
pub(super) struct Signature {
    pub name: String,
    pub is_private: bool,
    pub arguments: Vec<Type>,
    pub results: Vec<Type>,
    pub argument_attributes: Vec<Dictionary>,
    pub result_attributes: Vec<Dictionary>,
    pub attributes: Dictionary,
}

/// Takes the attributes of a function apart.
pub(super) fn signature(attributes: Dictionary) -> Result<Signature> {
    let (mut name, mut ty) = (None, None);
    let mut others = Vec::new();
    let mut out = Signature {
        name: String::new(),
        is_private: false,
        arguments: Vec::new(),
        results: Vec::new(),
        argument_attributes: Vec::new(),
        result_attributes: Vec::new(),
        attributes: Dictionary::new(),
    };
    for (key, value) in attributes {
        match (&*key, value) {
            ("sym_name", Attribute::String(text)) => name = Some(String::from_utf8_lossy(&text).into_owned()),
            ("function_type", Attribute::Type(Type::Function(arguments, results))) => ty = Some((arguments, results)),
            ("sym_visibility", Attribute::String(text)) => {
                out.is_private = matches!(&*text, b"private" | b"nested");
            }
            ("arg_attrs", Attribute::Array(list)) => out.argument_attributes = dictionaries(list)?,
            ("res_attrs", Attribute::Array(list)) => out.result_attributes = dictionaries(list)?,
            (_, value) => others.push((key, value)),
        }
    }
    out.attributes = others.into_iter().collect();
    let (Some(name), Some((arguments, results))) = (name, ty) else {
        return Err(malformed("expected a function with a name and a type"));
    };
    for (list, count) in [(&mut out.argument_attributes, arguments.len()), (&mut out.result_attributes, results.len())]
    {
        if list.len() > count {
            return Err(malformed(format!("expected attributes of {count} values of '{name}', found {}", list.len())));
        }
        list.resize(count, Dictionary::new());
    }
    (out.name, out.arguments, out.results) = (name, arguments, results);
    Ok(out)
}

fn dictionaries(list: Vec<Attribute>) -> Result<Vec<Dictionary>> {
    let each = list.into_iter().map(|a| match a {
        Attribute::Dictionary(dictionary) => Ok(dictionary),
        _ => Err(malformed("expected the attributes of an argument or a result")),
    });
    each.collect()
}

/// The operation's name and attributes in StableHLO's current form.
pub(super) fn operation(name: &str, attributes: Dictionary) -> Result<(Box<str>, Dictionary)> {
    let (base, version) = base(name);
    if version == 0 {
        return Err(unsupported(format!("the operation vhlo.{name}, which has no version")));
    }
    let mut a = Fields { operation: base, left: attributes };
    let mut made: Vec<(&str, Attribute)> = Vec::new();
    match base {
        "call" => made.push(("callee", a.symbol("callee")?)),
        "composite" => made.push(("decomposition", a.symbol("decomposition")?)),
        "custom_call" => a.called_computations()?,
        "convolution" => made.push(("dimension_numbers", a.convolution()?)),
        "dynamic_conv" => {
            // The first version had both this and an operand for the padding, of which the operand counts.
            a.take("padding");
            made.push(("dimension_numbers", a.convolution()?));
        }
        "dot_general" => {
            made.push(("dot_dimension_numbers", a.dot()?));
            if let Some(algorithm) = a.dot_algorithm()? {
                made.push(("algorithm", algorithm));
            }
        }
        "gather" | "dynamic_gather" => made.push(("dimension_numbers", a.gather()?)),
        "scatter" => made.push(("scatter_dimension_numbers", a.scatter()?)),
        "send" | "recv" => {
            let (handle, kind) = (a.int("channel_id")?, a.int("channel_type")?);
            made.push(("channel_handle", Attribute::Channel { handle, kind }));
        }
        "all_gather"
        | "all_reduce"
        | "all_to_all"
        | "collective_permute"
        | "collective_broadcast"
        | "reduce_scatter"
        | "collective_reduce" => {
            let handle = a.take("channel_id").and_then(|v| v.to_int()).unwrap_or_default();
            if handle != 0 {
                made.push(("channel_handle", Attribute::Channel { handle, kind: 0 }));
            }
            for flag in ["use_global_device_ids", "has_dynamic_root"] {
                if a.take(flag).and_then(|v| v.to_bool()) == Some(true) {
                    made.push((flag, Attribute::Unit));
                }
            }
        }
        _ => {}
    }
    let mut out = a.left;
    for (name, value) in made {
        out.set(name, value);
    }
    strip_defaults(base, &mut out);
    let name = match base {
        "call" => "func.call".to_owned(),
        _ => format!("stablehlo.{base}"),
    };
    Ok((name.into_boxed_str(), out))
}

/// Attributes to be taken, of one operation.
struct Fields<'a> {
    operation: &'a str,
    left: Dictionary,
}

impl Fields<'_> {
    fn take(&mut self, name: &str) -> Option<Attribute> {
        self.left.remove(name)
    }

    fn needed(&mut self, name: &str) -> Result<Attribute> {
        let operation = self.operation;
        self.take(name).ok_or_else(|| malformed(format!("expected the attribute {name} of {operation}, found none")))
    }

    fn int(&mut self, name: &str) -> Result<i64> {
        let value = self.needed(name)?;
        value.to_int().ok_or_else(|| malformed(format!("expected {name} of {} to be an integer", self.operation)))
    }

    fn ints(&mut self, name: &str) -> Result<Vec<i64>> {
        let value = self.needed(name)?;
        value.to_ints().ok_or_else(|| malformed(format!("expected {name} of {} to be integers", self.operation)))
    }

    /// A list that older versions do not have.
    fn newer_ints(&mut self, name: &str) -> Result<Vec<i64>> {
        if self.left.get(name).is_none() { Ok(Vec::new()) } else { self.ints(name) }
    }

    fn index(&mut self, name: &str) -> Result<usize> {
        let value = self.int(name)?;
        usize::try_from(value).map_err(|_| malformed(format!("expected {name} of at least 0, found {value}")))
    }

    fn indices(&mut self, name: &str) -> Result<Vec<usize>> {
        let list = self.ints(name)?;
        let each = list.iter().map(|&n| usize::try_from(n).ok());
        each.collect::<Option<_>>().ok_or_else(|| malformed(format!("expected {name} of at least 0, found {list:?}")))
    }

    fn symbol(&mut self, name: &str) -> Result<Attribute> {
        let value = self.needed(name)?;
        symbol(value).ok_or_else(|| malformed(format!("expected {name} of {} to be a name", self.operation)))
    }

    /// Names of functions, which VHLO keeps as strings.
    fn called_computations(&mut self) -> Result<()> {
        let Some(Attribute::Array(list)) = self.take("called_computations") else { return Ok(()) };
        let names = list.into_iter().map(symbol).collect::<Option<Vec<_>>>();
        let names = names.ok_or_else(|| malformed("expected called_computations to be names"))?;
        if !names.is_empty() {
            self.left.set("called_computations", Attribute::Array(names));
        }
        Ok(())
    }

    fn convolution(&mut self) -> Result<Attribute> {
        Ok(Attribute::Convolution(Box::new(ConvolutionDims {
            input_batch: self.index("input_batch_dimension")?,
            input_feature: self.index("input_feature_dimension")?,
            input_spatial: self.indices("input_spatial_dimensions")?,
            kernel_input_feature: self.index("kernel_input_feature_dimension")?,
            kernel_output_feature: self.index("kernel_output_feature_dimension")?,
            kernel_spatial: self.indices("kernel_spatial_dimensions")?,
            output_batch: self.index("output_batch_dimension")?,
            output_feature: self.index("output_feature_dimension")?,
            output_spatial: self.indices("output_spatial_dimensions")?,
        })))
    }

    fn dot(&mut self) -> Result<Attribute> {
        Ok(Attribute::Dot(Box::new(DotDims {
            lhs_batching: self.ints("lhs_batching_dimensions")?,
            rhs_batching: self.ints("rhs_batching_dimensions")?,
            lhs_contracting: self.ints("lhs_contracting_dimensions")?,
            rhs_contracting: self.ints("rhs_contracting_dimensions")?,
        })))
    }

    /// The algorithm of a dot; all of its parts are the type `none` where there is no algorithm.
    fn dot_algorithm(&mut self) -> Result<Option<Attribute>> {
        let is_none = |a: Option<&Attribute>| matches!(a, None | Some(Attribute::Type(Type::None)));
        if is_none(self.left.get("lhs_component_count")) {
            let parts = [
                "lhs_precision_type",
                "rhs_precision_type",
                "accumulation_type",
                "lhs_component_count",
                "rhs_component_count",
                "num_primitive_operations",
                "allow_imprecise_accumulation",
            ];
            for part in parts {
                if !is_none(self.take(part).as_ref()) {
                    return Err(malformed(format!("expected {part} of dot_general only with an algorithm")));
                }
            }
            return Ok(None);
        }
        let allow_imprecise_accumulation = self.needed("allow_imprecise_accumulation")?.to_bool();
        Ok(Some(Attribute::DotAlgorithm(Box::new(DotAlgorithm {
            lhs_precision_type: self.element("lhs_precision_type")?,
            rhs_precision_type: self.element("rhs_precision_type")?,
            accumulation_type: self.element("accumulation_type")?,
            lhs_component_count: self.int("lhs_component_count")?,
            rhs_component_count: self.int("rhs_component_count")?,
            num_primitive_operations: self.int("num_primitive_operations")?,
            allow_imprecise_accumulation: allow_imprecise_accumulation
                .ok_or_else(|| malformed("expected allow_imprecise_accumulation to be a truth value"))?,
        }))))
    }

    fn element(&mut self, name: &str) -> Result<Element> {
        match self.needed(name)? {
            Attribute::Type(Type::Element(element)) => Ok(element),
            _ => Err(malformed(format!("expected {name} to be the type of an element"))),
        }
    }

    fn gather(&mut self) -> Result<Attribute> {
        Ok(Attribute::Gather(Box::new(GatherDims {
            offset_dims: self.ints("offset_dims")?,
            collapsed_slice_dims: self.ints("collapsed_slice_dims")?,
            operand_batching_dims: self.newer_ints("operand_batching_dims")?,
            start_indices_batching_dims: self.newer_ints("start_indices_batching_dims")?,
            start_index_map: self.ints("start_index_map")?,
            index_vector_dim: self.int("index_vector_dim")?,
        })))
    }

    fn scatter(&mut self) -> Result<Attribute> {
        Ok(Attribute::Scatter(Box::new(ScatterDims {
            update_window_dims: self.ints("update_window_dims")?,
            inserted_window_dims: self.ints("inserted_window_dims")?,
            input_batching_dims: self.newer_ints("input_batching_dims")?,
            scatter_indices_batching_dims: self.newer_ints("scatter_indices_batching_dims")?,
            scatter_dims_to_operand_dims: self.ints("scatter_dims_to_operand_dims")?,
            index_vector_dim: self.int("index_vector_dim")?,
        })))
    }
}

fn symbol(value: Attribute) -> Option<Attribute> {
    match value {
        Attribute::String(text) => {
            Some(Attribute::Symbol(vec![String::from_utf8_lossy(&text).into_owned().into_boxed_str()]))
        }
        Attribute::Symbol(_) => Some(value),
        _ => None,
    }
}

/// Removes from the attributes of `stablehlo.{operation}` those that say what it means where nothing is said; VHLO writes all of
/// them out.
pub fn strip_defaults(operation: &str, attributes: &mut Dictionary) {
    let is_word = |a: &Attribute, word: &str| a.to_word() == Some(word);
    let is_default = |name: &str, a: &Attribute| match (operation, name) {
        (_, "channel_handle") => {
            matches!(a, Attribute::Channel { handle: 0, .. }) && !matches!(operation, "send" | "recv")
        }
        ("cholesky", "lower")
        | ("custom_call", "has_side_effect")
        | ("gather" | "dynamic_gather" | "scatter", "indices_are_sorted")
        | ("scatter", "unique_indices")
        | ("send" | "recv", "is_host_transfer")
        | ("sort", "is_stable") => a.to_bool() == Some(false),
        ("compare", "compare_type") => is_word(a, "NOTYPE"),
        ("composite", "version") => a.to_int() == Some(0),
        ("composite", "composite_attributes") => matches!(a, Attribute::Dictionary(d) if d.is_empty()),
        (
            "convolution" | "dynamic_conv" | "reduce_window" | "select_and_scatter",
            "window_strides" | "lhs_dilation" | "rhs_dilation" | "base_dilations" | "window_dilations",
        ) => a.to_ints().is_some_and(|list| list.iter().all(|&n| n == 1)),
        ("convolution" | "reduce_window" | "select_and_scatter", "padding")
        | ("convolution" | "dynamic_conv", "window_reversal") => {
            a.to_ints().is_some_and(|list| list.iter().all(|&n| n == 0))
        }
        ("convolution" | "dynamic_conv" | "dot_general" | "dot", "precision_config") => {
            matches!(a, Attribute::Array(list) if list.iter().all(|p| is_word(p, "DEFAULT")))
        }
        ("custom_call", "backend_config") => match a {
            Attribute::String(text) => text.is_empty(),
            Attribute::Dictionary(d) => d.is_empty(),
            _ => false,
        },
        ("custom_call", "api_version") => a.to_int() == Some(1),
        ("custom_call", "called_computations" | "output_operand_aliases" | "result_tilings") | ("infeed", "layout") => {
            matches!(a, Attribute::Array(list) if list.is_empty())
        }
        ("dynamic_broadcast_in_dim", "known_expanding_dimensions" | "known_nonexpanding_dimensions")
        | ("send" | "recv", "source_target_pairs") => a.to_ints().is_some_and(|list| list.is_empty()),
        ("infeed", "infeed_config") | ("outfeed", "outfeed_config") => {
            matches!(a, Attribute::String(text) if text.is_empty())
        }
        ("sort", "dimension") => a.to_int() == Some(-1),
        (_, "result_accuracy") => {
            matches!(a, Attribute::ResultAccuracy(r) if &*r.mode == "DEFAULT" && (r.atol, r.rtol, r.ulps) == (0.0, 0.0, 0))
        }
        _ => false,
    };
    let is_empty = |a: Option<&Attribute>| matches!(a, Some(Attribute::Array(list)) if list.is_empty());
    let no_layouts = operation == "custom_call"
        && is_empty(attributes.get("operand_layouts"))
        && is_empty(attributes.get("result_layouts"));
    let drop = |name: &str, a: &Attribute| {
        is_default(name, a) || no_layouts && matches!(name, "operand_layouts" | "result_layouts")
    };
    let kept = std::mem::take(attributes).into_iter().filter(|(name, a)| !drop(name, a));
    *attributes = kept.collect();
}
