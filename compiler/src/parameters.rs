//! The names by which people know the arrays that a program takes.
//!
//! Problem: an array has the name of its instruction (`Arg_1.2`), that of its source (`params['w']`), and as part of a tuple none of
//! its own; exporters put `.N` behind names, and HLO has underscores for brackets. Invariant: a name stands for one array or is an
//! error that says which there are. Algorithm: exact names first, then what HLO makes of the name, then those that lack their `.N`.

use crate::error::{shortened, suggestion};
use crate::hlo::{Module, legal_name};
use crate::proto;
use brolga_runtime::{ArrayShape, Shape};
use hashbrown::HashSet;

/// The arrays in a parameter, or in a result.
pub fn array_leaves(shape: &Shape) -> Vec<&ArrayShape> {
    fn array(leaf: &Shape) -> Option<&ArrayShape> {
        match leaf {
            Shape::Array(array) | Shape::Buffer(array) => Some(array),
            _ => None,
        }
    }
    shape.leaves().into_iter().filter_map(array).collect()
}

/// Of each leaf array of the entry's parameters, in order, the names that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterNames(Vec<Vec<String>>);

impl ParameterNames {
    /// These names; of each array one at least.
    pub fn new(names: Vec<Vec<String>>) -> ParameterNames {
        ParameterNames(names)
    }

    /// Those of a module. An array is known by the instruction's name and by the one in its metadata, leaf K of a tuple by
    /// `NAME.K`.
    pub fn of_module(module: &Module) -> ParameterNames {
        let entry = module.entry();
        let mut names = Vec::new();
        for id in entry.parameters() {
            let instruction = &entry.instructions[id];
            let mut own = vec![instruction.name.clone()];
            own.extend(proto::op_name(instruction).filter(|name| *name != instruction.name));
            match &instruction.shape {
                Shape::Tuple(_) => {
                    let leaves = 0..array_leaves(&instruction.shape).len();
                    names.extend(leaves.map(|k| own.iter().map(|name| format!("{name}.{k}")).collect()));
                }
                shape if array_leaves(shape).is_empty() => {}
                _ => names.push(own),
            }
        }
        ParameterNames(names)
    }

    /// The names of each array.
    pub fn leaves(&self) -> &[Vec<String>] {
        &self.0
    }

    /// The numbers of the leaf arrays of that name; several where all of them have the same names, as on several devices. A name
    /// may be the source's, which HLO spells in another way, and it may lack the `.N` that sets it apart from others.
    ///
    /// # Errors
    /// A message, where there is no such name or it may stand for different arrays.
    pub fn find(&self, name: &str) -> Result<Vec<usize>, String> {
        let by = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let leaves = self.0.iter().enumerate();
            leaves.filter(|(_, names)| names.iter().any(|n| fits(n))).map(|(k, _)| k).collect()
        };
        let exact = by(&|known| known == name);
        let stem = |known: &str| {
            known
                .rsplit_once('.')
                .is_some_and(|(stem, number)| stem == name && number.bytes().all(|b| b.is_ascii_digit()))
        };
        let legal = legal_name(name);
        let exact = if exact.is_empty() { by(&|known| known == legal) } else { exact };
        let near = if exact.is_empty() { by(&stem) } else { exact };
        let different: HashSet<&Vec<String>> = near.iter().map(|&k| &self.0[k]).collect();
        match different.len() {
            1 => Ok(near),
            0 => {
                let hint = suggestion(name, self.0.iter().flatten().map(String::as_str));
                let list: Vec<&str> = self.0.iter().filter_map(|n| n.last()).map(String::as_str).collect();
                Err(format!("the module has no parameter '{name}'{hint} (it has {})", shortened(&list.join(", "))))
            }
            _ => {
                let list: Vec<&str> = near.iter().filter_map(|&k| self.0[k].first()).map(String::as_str).collect();
                Err(format!("'{name}' may be any of the parameters {}", list.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_found_with_and_without_their_numbers() {
        let names = [["Arg_0.1", "x"], ["Arg_1.2", "params['w']"], ["Arg_1.3", "y"]];
        let names = ParameterNames::new(names.map(|both| both.map(str::to_owned).to_vec()).to_vec());
        assert_eq!(names.find("x"), Ok(vec![0]));
        assert_eq!(names.find("Arg_0"), Ok(vec![0]));
        assert_eq!(names.find("params['w']"), Ok(vec![1]));
        assert!(names.find("Arg_1").unwrap_err().contains("Arg_1.2, Arg_1.3"));
        let spelled = ParameterNames::new(vec![vec!["params__w__".to_owned()], vec!["x".to_owned()]]);
        assert_eq!(spelled.find("params['w']"), Ok(vec![0]));
        let unknown = names.find("params['v']").unwrap_err();
        assert!(unknown.contains("did you mean 'params['w']'?") && unknown.contains("(it has x, params['w'], y)"));
    }
}
