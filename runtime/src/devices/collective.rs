//! What a collective does, in the words of a call.

use crate::abi::coded;

coded! {
    /// The operation. The specification's sections have the same names.
    pub enum Operation: i64 {
        /// Operands of all members, combined element by element.
        AllReduce = 1,
        /// Operands of all members, one after another along a dimension.
        AllGather = 2,
        /// As [`Operation::AllReduce`], of which each member keeps its part along a dimension.
        ReduceScatter = 3,
        /// Part `i` of each member's operand along a dimension goes to member `i`, which joins them along that dimension.
        AllToAll = 4,
        /// Operand `i` of each member goes to member `i`, whose result `j` is what member `j` sent.
        AllToAllTuple = 5,
        /// The first member's operands.
        CollectiveBroadcast = 6,
        /// The operands of the device that a pair says; zeros where no pair names this device as a target.
        CollectivePermute = 7,
        /// Rows of each member's input go to the rows of another's output that operands say.
        RaggedAllToAll = 8,
    }
}

impl Operation {
    /// The opcode's name.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "all-reduce",
            Operation::AllGather => "all-gather",
            Operation::ReduceScatter => "reduce-scatter",
            Operation::AllToAll | Operation::AllToAllTuple => "all-to-all",
            Operation::CollectiveBroadcast => "collective-broadcast",
            Operation::CollectivePermute => "collective-permute",
            Operation::RaggedAllToAll => "ragged-all-to-all",
        }
    }

    /// Whether elements are combined.
    pub const fn reduces(self) -> bool {
        matches!(self, Operation::AllReduce | Operation::ReduceScatter)
    }
}

coded! {
    /// How elements are combined.
    pub enum Reduction: i64 {
        /// Sums.
        Add = 1,
        /// Products.
        Multiply = 2,
        /// Minima; NaN where either is NaN.
        Minimum = 3,
        /// Maxima; NaN where either is NaN.
        Maximum = 4,
        /// Bits, or truth values, that both have.
        And = 5,
        /// Bits, or truth values, that either has.
        Or = 6,
        /// Bits, or truth values, that one of them has.
        Xor = 7,
    }
}

/// A collective, the same for each device of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// What is done.
    pub operation: Operation,
    /// How elements are combined, where the operation does so.
    pub reduction: Option<Reduction>,
    /// The dimension along which arrays are cut and joined.
    pub dimension: usize,
    /// The channel; 0 for none. Devices that run different programs meet over channels only.
    pub channel: i64,
    /// Line of the instruction in the program's text, 0 where unknown.
    pub line: u32,
    /// The members of each group, in order; of a permutation, pairs of a source and a target.
    pub groups: Vec<Vec<usize>>,
}

impl Collective {
    /// The words of [`Collective::decode`]: operation, reduction or 0, dimension, channel, line, number of groups, then the
    /// size of each group and its members.
    pub fn encode(&self) -> Vec<i64> {
        let mut words = vec![
            self.operation as i64,
            self.reduction.map_or(0, |r| r as i64),
            self.dimension as i64,
            self.channel,
            i64::from(self.line),
            self.groups.len() as i64,
        ];
        for group in &self.groups {
            words.push(group.len() as i64);
            words.extend(group.iter().map(|&d| d as i64));
        }
        words
    }

    /// Reads the words of a collective; `None` where they are no such words.
    pub fn decode(words: &[i64]) -> Option<Collective> {
        let (&[operation, reduction, dimension, channel, line, count], mut rest) = words.split_first_chunk::<6>()?;
        let mut groups = Vec::new();
        for _ in 0..count {
            let (&size, after) = rest.split_first()?;
            let (members, after) = after.split_at_checked(usize::try_from(size).ok()?)?;
            groups.push(members.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<_>>()?);
            rest = after;
        }
        let reduction = match reduction {
            0 => None,
            code => Some(Reduction::from_code(code)?),
        };
        let operation = Operation::from_code(operation)?;
        let (dimension, line) = (usize::try_from(dimension).ok()?, u32::try_from(line).ok()?);
        let complete = rest.is_empty() && reduction.is_some() == operation.reduces();
        complete.then_some(Collective { operation, reduction, dimension, channel, line, groups })
    }

    /// The group of a device and its place there. All devices take part in a permutation, and a device that a broadcast
    /// leaves out is its own group.
    pub fn group_of(&self, device: usize, devices: usize) -> Option<(Vec<usize>, usize)> {
        if self.operation == Operation::CollectivePermute {
            return Some(((0..devices).collect(), device));
        }
        let found = self.groups.iter().find_map(|g| Some((g, g.iter().position(|&d| d == device)?)));
        match found {
            Some((group, me)) if group.iter().all(|&d| d < devices) => Some((group.clone(), me)),
            None if self.operation == Operation::CollectiveBroadcast => Some((vec![device], 0)),
            _ => None,
        }
    }

    /// The device that sends to `device` in a permutation.
    pub fn sender(&self, device: usize) -> Option<usize> {
        let pair = self.groups.iter().find(|pair| pair.get(1) == Some(&device))?;
        pair.first().copied()
    }
}

/// The instruction and its line, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    operation: Operation,
    line: u32,
}

impl Collective {
    /// What messages call it.
    pub(super) fn label(&self) -> Label {
        Label { operation: self.operation, line: self.line }
    }
}

impl std::fmt::Display for Collective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.label().fmt(f)
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(self.operation.name()),
            line => write!(f, "{} at line {line}", self.operation.name()),
        }
    }
}
