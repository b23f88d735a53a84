//! Loops over tiny tensors whose state stays in registers: what [`lower_while`](super::lower::lower_while) makes of a `while`.

use super::body::{Body, Mem, NodeId};
use brolga_runtime::ElementType;

/// An array of the state: where its start is loaded and its end stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateArray {
    /// Memory form of an element.
    pub mem: Mem,
    /// Its type.
    pub ty: ElementType,
    /// Number of elements.
    pub elements: usize,
}

/// `state = load(inputs); while (condition(state)) state = body(state); store(outputs, state)`.
///
/// Buffers `0..n` of the kernel are the initial arrays, `n..2n` the final ones.
#[derive(Clone, Debug)]
pub struct RegisterLoop {
    /// The arrays of the state.
    pub state: Vec<StateArray>,
    /// What a loaded element becomes: argument 0 is the raw element; one body and root an array.
    pub decode: Vec<(Body, NodeId)>,
    /// What an element is stored as: argument 0 is the element; one body and root an array.
    pub encode: Vec<(Body, NodeId)>,
    /// Arguments are the elements of the state; the root is a mask.
    pub condition: (Body, NodeId),
    /// Arguments are the elements of the state; the roots are the next state.
    pub body: (Body, Vec<NodeId>),
}
