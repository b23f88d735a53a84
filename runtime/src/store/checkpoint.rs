//! Checkpoints: the persistent tensors of a store as a file of safetensors.
//!
//! A file is written beside its place under another name, brought to the disk and then renamed: whenever this process or the
//! machine stops, the place holds the old checkpoint or the new one, whole. A checkpoint is read and checked whole before any
//! tensor is changed. The format is row-major and dense: tensors of other layouts are converted both ways.

use super::{Store, StoreError};
use crate::abi::Leaf;
use crate::files::replace;
use crate::{ArrayLiteral, ArrayShape, ElementType};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// The element types that the format has.
const TYPES: [(ElementType, Dtype); 20] = [
    (ElementType::Pred, Dtype::BOOL),
    (ElementType::S8, Dtype::I8),
    (ElementType::S16, Dtype::I16),
    (ElementType::S32, Dtype::I32),
    (ElementType::S64, Dtype::I64),
    (ElementType::U8, Dtype::U8),
    (ElementType::U16, Dtype::U16),
    (ElementType::U32, Dtype::U32),
    (ElementType::U64, Dtype::U64),
    (ElementType::F8E4M3Fn, Dtype::F8_E4M3),
    (ElementType::F8E4M3Fnuz, Dtype::F8_E4M3FNUZ),
    (ElementType::F8E5M2, Dtype::F8_E5M2),
    (ElementType::F8E5M2Fnuz, Dtype::F8_E5M2FNUZ),
    (ElementType::F8E8M0Fnu, Dtype::F8_E8M0),
    (ElementType::F16, Dtype::F16),
    (ElementType::BF16, Dtype::BF16),
    (ElementType::F32, Dtype::F32),
    (ElementType::F64, Dtype::F64),
    (ElementType::C64, Dtype::C64),
    // The format has no pair of `f64`: they are written as one dimension more, of two.
    (ElementType::C128, Dtype::F64),
];

/// How a shape is written down.
fn stored(shape: &ArrayShape) -> Option<(Dtype, Vec<usize>)> {
    let (_, dtype) = TYPES.into_iter().find(|(ty, _)| *ty == shape.ty)?;
    let mut dims: Vec<usize> = shape.dims.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<_>>()?;
    if shape.ty == ElementType::C128 {
        dims.push(2);
    }
    Some((dtype, dims))
}

/// A tensor of a file as an array of this type and these dimensions. What truth values and types that the format lacks are stored
/// as is said by [`Store::save`].
///
/// # Errors
/// A message, where there is no tensor of that name or it has another type or other dimensions.
pub fn safetensors_array(file: &SafeTensors<'_>, name: &str, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
    let view = file.tensor(name).map_err(|e| e.to_string())?;
    array_of(&view, shape).ok_or_else(|| {
        format!("expected {shape:#}, found {:?} of shape {:?} under the name '{name}'", view.dtype(), view.shape())
    })
}

/// `None` where the tensor has another type or other dimensions.
fn array_of(view: &TensorView<'_>, shape: &ArrayShape) -> Option<ArrayLiteral> {
    let found = (view.dtype(), view.shape().to_vec());
    let value = ArrayLiteral::from_bytes(&ArrayShape::new(shape.ty, shape.dims.clone()), view.data());
    value.filter(|_| stored(shape) == Some(found))
}

impl Store {
    /// Writes the persistent tensors but placeholders, whose values are the host's, to a file of safetensors. A file that is there is
    /// replaced at once: a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// Where a tensor has no value yet or a type that the format lacks, and where the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), StoreError> {
        let path = path.as_ref();
        let values = self.kept().map(|name| Ok((name, self.get(name)?))).collect::<Result<Vec<_>, StoreError>>()?;
        let views = values.iter().map(|(name, value)| {
            let missing = || fault(path, format!("the format has no type for the tensor '{name}', {}", value.shape()));
            let (dtype, dims) = stored(value.shape()).ok_or_else(missing)?;
            let view = TensorView::new(dtype, dims, value.bytes()).map_err(|e| fault(path, e))?;
            Ok((*name, view))
        });
        let views = views.collect::<Result<Vec<_>, StoreError>>()?;
        let bytes = safetensors::serialize(views, None).map_err(|e| fault(path, e))?;
        replace(path, &bytes).map_err(|e| fault(path, e))
    }

    /// Gives the persistent tensors, but placeholders, the values of a file that [`Store::save`] wrote.
    ///
    /// # Errors
    /// Where the file cannot be read, or has not the names, shapes and types of these tensors; then no tensor is changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), StoreError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| fault(path, e))?;
        let file =
            SafeTensors::deserialize(&bytes).map_err(|e| fault(path, format!("not a file of safetensors: {e}")))?;
        let extra = file.names().into_iter().find(|name| !self.kept().any(|kept| kept == *name)).map(str::to_owned);
        if let Some(name) = extra {
            let known = self.kept().collect::<Vec<_>>().join(", ");
            return Err(fault(path, format!("expected the tensors {known}, found '{name}' too")));
        }
        let mut values = Vec::new();
        for leaf in self.kept_leaves() {
            let view =
                file.tensor(&leaf.name).map_err(|_| fault(path, format!("there is no tensor '{}'", leaf.name)))?;
            match array_of(&view, &leaf.shape) {
                Some(value) => values.push((leaf.name.clone(), value)),
                None => {
                    let (dtype, dims) = (view.dtype(), view.shape());
                    let message =
                        format!("the tensor '{}' is {:#}, found {dtype:?} of shape {dims:?}", leaf.name, leaf.shape);
                    return Err(fault(path, message));
                }
            }
        }
        values.iter().try_for_each(|(name, value)| self.set(name, value))
    }

    /// The tensors that a checkpoint holds.
    fn kept_leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.tensors().filter(|leaf| leaf.tensor.is_learned())
    }

    /// Their names.
    fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept_leaves().map(|leaf| leaf.name.as_str())
    }
}

fn fault(path: &Path, message: impl std::fmt::Display) -> StoreError {
    StoreError::Checkpoint { path: path.display().to_string(), message: message.to_string() }
}
