//! Attributes of operations, with their defaults and errors.

use super::body::Body;
use crate::error::Result;
use crate::stablehlo::ir::{Attribute, Operation};

impl<'p> Body<'_, 'p> {
    pub fn attribute(&self, op: &'p Operation, name: &str) -> Result<&'p Attribute> {
        op.attribute(name).ok_or_else(|| self.invalid("attribute.required", format!("{} must say {name}", op.name)))
    }

    fn wrong<T>(&self, op: &Operation, name: &str, what: &str) -> Result<T> {
        Err(self.invalid("attribute.kind", format!("expected {what} as {name} of {}", op.name)))
    }

    pub fn int(&self, op: &'p Operation, name: &str) -> Result<i64> {
        match self.attribute(op, name)?.to_int() {
            Some(value) => Ok(value),
            None => self.wrong(op, name, "an integer"),
        }
    }

    pub fn int_or(&self, op: &'p Operation, name: &str, default: i64) -> Result<i64> {
        if op.attribute(name).is_none() { Ok(default) } else { self.int(op, name) }
    }

    pub fn bool_or(&self, op: &'p Operation, name: &str, default: bool) -> Result<bool> {
        match op.attribute(name) {
            None => Ok(default),
            Some(value) => match value.to_bool() {
                Some(value) => Ok(value),
                None => self.wrong(op, name, "a truth value"),
            },
        }
    }

    pub fn ints(&self, op: &'p Operation, name: &str) -> Result<Vec<i64>> {
        match self.attribute(op, name)?.to_ints() {
            Some(list) => Ok(list),
            None => self.wrong(op, name, "a list of integers"),
        }
    }

    pub fn optional_ints(&self, op: &'p Operation, name: &str) -> Result<Option<Vec<i64>>> {
        if op.attribute(name).is_none() { Ok(None) } else { self.ints(op, name).map(Some) }
    }

    pub fn float(&self, op: &'p Operation, name: &str) -> Result<f64> {
        match self.attribute(op, name)? {
            Attribute::Float(value, _) => Ok(*value),
            _ => self.wrong(op, name, "a number"),
        }
    }

    pub fn word(&self, op: &'p Operation, name: &str) -> Result<&'p str> {
        match self.attribute(op, name)?.to_word() {
            Some(word) => Ok(word),
            None => self.wrong(op, name, "a word"),
        }
    }

    /// A word that must be one of `words`, which HLO knows under the same name.
    pub fn known_word(&self, op: &'p Operation, name: &str, words: &[&'static str]) -> Result<&'static str> {
        let found = self.word(op, name)?;
        match words.iter().find(|w| **w == found) {
            Some(word) => Ok(word),
            None => self.wrong(op, name, &format!("one of {}, found {found}, ", words.join(", "))),
        }
    }

    pub fn text(&self, op: &'p Operation, name: &str) -> Result<Option<&'p str>> {
        match op.attribute(name) {
            None => Ok(None),
            Some(value) => match value.to_str() {
                Some(text) => Ok(Some(text)),
                None => self.wrong(op, name, "a string"),
            },
        }
    }
}
