//! What an instruction became, and how such values travel through loops, branches and the entry.

use super::draft::Draft;
use crate::error::Result;
use crate::hlo::InstructionId;
use brolga_runtime::{ArrayShape, ElementType, Shape};

/// The true size of a dimension, an `s32` scalar; `None` where it is the declared one.
pub(super) type Size = Option<InstructionId>;

/// What an instruction became.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Nothing in it is dynamic: one instruction, of any shape.
    Whole(InstructionId),
    /// An array at its bounds, and the true size of each dimension, at least one of them given.
    Sized(InstructionId, Vec<Size>),
    /// A tuple with something dynamic in it.
    Tuple(Vec<Value>),
}

impl Value {
    /// An array with sizes, if any.
    pub fn new(data: InstructionId, sizes: Vec<Size>) -> Value {
        if sizes.iter().any(Option::is_some) { Value::Sized(data, sizes) } else { Value::Whole(data) }
    }

    /// A tuple; `whole` makes it where nothing in it is dynamic.
    pub fn tuple(draft: &mut Draft, elements: Vec<Value>) -> Value {
        let whole: Option<Vec<InstructionId>> = elements.iter().map(Value::whole).collect();
        match whole {
            Some(parts) => Value::Whole(draft.tuple(parts)),
            None => Value::Tuple(elements),
        }
    }

    /// The instruction, where nothing is dynamic.
    pub fn whole(&self) -> Option<InstructionId> {
        match self {
            Value::Whole(id) => Some(*id),
            _ => None,
        }
    }

    /// The elements at the bounds, where this is an array.
    pub fn data(&self) -> Option<InstructionId> {
        match self {
            Value::Whole(id) | Value::Sized(id, _) => Some(*id),
            Value::Tuple(_) => None,
        }
    }

    /// The true size of dimension `d`.
    pub fn size(&self, d: usize) -> Size {
        match self {
            Value::Sized(_, sizes) => sizes.get(d).copied().flatten(),
            _ => None,
        }
    }

    /// The true sizes of an array of `rank` dimensions.
    pub fn sizes(&self, rank: usize) -> Vec<Size> {
        (0..rank).map(|d| self.size(d)).collect()
    }

    /// What of the value is dynamic.
    pub fn form(&self) -> Form {
        match self {
            Value::Whole(_) => Form::Static,
            Value::Sized(_, sizes) => Form::Array(sizes.iter().map(Option::is_some).collect()),
            Value::Tuple(elements) => Form::Tuple(elements.iter().map(Value::form).collect()),
        }
    }
}

/// What of a value is dynamic. It decides how the value travels: a dynamic array as a tuple of its elements at the
/// bounds and one `s32` for each dynamic dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing.
    Static,
    /// These dimensions of an array.
    Array(Vec<bool>),
    /// Something in a tuple.
    Tuple(Vec<Form>),
}

impl Form {
    /// What a shape declares. A dimension of bound 0 has one size only.
    pub fn of(shape: &Shape) -> Form {
        match shape {
            Shape::Array(a) => {
                let marks: Vec<bool> = a.dynamic.iter().zip(&a.dims).map(|(&mark, &d)| mark && d > 0).collect();
                if marks.contains(&true) { Form::Array(marks) } else { Form::Static }
            }
            Shape::Tuple(elements) => {
                let forms: Vec<Form> = elements.iter().map(Form::of).collect();
                if forms.iter().all(|f| *f == Form::Static) { Form::Static } else { Form::Tuple(forms) }
            }
            _ => Form::Static,
        }
    }

    /// Dynamic where either is.
    pub fn join(self, other: Form) -> Form {
        match (self, other) {
            (Form::Static, form) | (form, Form::Static) => form,
            (Form::Array(a), Form::Array(b)) => Form::Array(a.iter().zip(&b).map(|(&x, &y)| x || y).collect()),
            (Form::Tuple(a), Form::Tuple(b)) => Form::Tuple(a.into_iter().zip(b).map(|(x, y)| x.join(y)).collect()),
            (form, _) => form,
        }
    }

    /// The shape in which a value travels whose bounds are `shape`'s.
    pub fn packed(&self, shape: &Shape) -> Shape {
        match (self, shape) {
            (Form::Array(marks), shape) => {
                let sizes = marks.iter().filter(|&&m| m).map(|_| Shape::scalar(ElementType::S32));
                Shape::Tuple(std::iter::once(at_bounds(shape)).chain(sizes).collect())
            }
            (Form::Tuple(forms), Shape::Tuple(shapes)) => {
                Shape::Tuple(forms.iter().zip(shapes).map(|(f, s)| f.packed(s)).collect())
            }
            _ => at_bounds(shape),
        }
    }
}

/// The shape without dynamic marks.
pub(super) fn at_bounds(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(a) => Shape::Array(static_array(a)),
        Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(at_bounds).collect()),
        other => other.clone(),
    }
}

/// The array without dynamic marks.
pub(super) fn static_array(a: &ArrayShape) -> ArrayShape {
    ArrayShape { dynamic: vec![false; a.rank()], ..a.clone() }
}

/// One instruction that holds the value as `form` says; sizes that it lacks are the bounds.
pub(super) fn pack(draft: &mut Draft, value: &Value, form: &Form) -> Result<InstructionId> {
    match (form, value) {
        (Form::Static, Value::Whole(id)) => Ok(*id),
        (Form::Static, _) => Err(draft.unsupported("a dynamic value where a static one is declared")),
        (Form::Array(marks), Value::Whole(data) | Value::Sized(data, _)) => {
            let dims = draft.array(*data)?.dims;
            let mut parts = vec![*data];
            for (d, (&mark, &bound)) in marks.iter().zip(&dims).enumerate() {
                match (mark, value.size(d)) {
                    (true, Some(size)) => parts.push(size),
                    (true, None) => parts.push(draft.s32(bound)),
                    (false, Some(_)) => return pack(draft, value, &Form::Static),
                    (false, None) => {}
                }
            }
            Ok(draft.tuple(parts))
        }
        (Form::Array(_), Value::Tuple(_)) => Err(draft.internal("a tuple for an array")),
        (Form::Tuple(forms), value) => {
            let mut parts = Vec::with_capacity(forms.len());
            for (k, form) in forms.iter().enumerate() {
                let element = element(draft, value, k)?;
                parts.push(pack(draft, &element, form)?);
            }
            Ok(draft.tuple(parts))
        }
    }
}

/// The value that `packed` holds as `form` says.
pub(super) fn unpack(draft: &mut Draft, packed: InstructionId, form: &Form) -> Result<Value> {
    match form {
        Form::Static => Ok(Value::Whole(packed)),
        Form::Array(marks) => {
            let data = draft.element(packed, 0)?;
            let mut sizes = Vec::with_capacity(marks.len());
            let mut next = 1;
            for &mark in marks {
                let size = if mark { Some(draft.element(packed, next)?) } else { None };
                next += usize::from(mark);
                sizes.push(size);
            }
            Ok(Value::new(data, sizes))
        }
        Form::Tuple(forms) => {
            let mut elements = Vec::with_capacity(forms.len());
            for (k, form) in forms.iter().enumerate() {
                let part = draft.element(packed, k)?;
                elements.push(unpack(draft, part, form)?);
            }
            Ok(Value::Tuple(elements))
        }
    }
}

/// Element `k` of a tuple.
pub(super) fn element(draft: &mut Draft, value: &Value, k: usize) -> Result<Value> {
    match value {
        Value::Whole(id) => Ok(Value::Whole(draft.element(*id, k)?)),
        Value::Tuple(elements) => elements.get(k).cloned().ok_or_else(|| draft.internal("no such element")),
        Value::Sized(..) => Err(draft.internal("an element of an array")),
    }
}
