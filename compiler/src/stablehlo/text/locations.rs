//! Locations: `loc("file.py":1:2)`, names, call sites, and aliases that are defined after their use.

use super::Reader;
use crate::Result;
use crate::stablehlo::ir::{Location, LocationId};
use std::sync::Arc;

impl<'a> Reader<'a> {
    /// `loc(...)`, if it comes next.
    pub(super) fn optional_location(&mut self) -> Result<Option<LocationId>> {
        let start = self.c.start();
        if !self.c.eat_word("loc") {
            return Ok(None);
        }
        if self.c.peek() != Some(b'(') {
            self.c.rewind(start);
            return Ok(None);
        }
        self.c.rewind(start);
        self.location().map(Some)
    }

    /// `loc(...)`
    pub(super) fn location(&mut self) -> Result<LocationId> {
        self.c.expect_word("loc")?;
        self.c.expect("(")?;
        let id = self.location_inside()?;
        self.c.expect(")")?;
        Ok(id)
    }

    fn location_inside(&mut self) -> Result<LocationId> {
        self.c.enter("locations")?;
        let id = match self.c.peek() {
            Some(b'#') => {
                let start = self.c.start();
                let name = self.c.name("#", "a location")?;
                match self.location_aliases.get(name) {
                    Some(&(id, _)) => id,
                    None => {
                        let id = self.locations.push(Location::Unknown);
                        self.location_aliases.insert(name, (id, Some(start)));
                        id
                    }
                }
            }
            Some(b'"') => {
                let start = self.c.start();
                let bytes = self.c.string("a name")?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let text = self.intern(text);
                let location = match self.c.peek() {
                    Some(b':') => {
                        self.c.expect(":")?;
                        let line = self.position(start)?;
                        let column = if self.c.eat(":") { self.position(start)? } else { 0 };
                        // A range says where it ends, too.
                        if self.c.eat_word("to") {
                            if self.c.peek() != Some(b':') {
                                self.position(start)?;
                            }
                            if self.c.eat(":") {
                                self.position(start)?;
                            }
                        }
                        Location::File { file: text, line, column }
                    }
                    Some(b'(') => {
                        self.c.expect("(")?;
                        let child = self.location_inside()?;
                        self.c.expect(")")?;
                        Location::Name { name: text, child: Some(child) }
                    }
                    _ => Location::Name { name: text, child: None },
                };
                self.locations.push(location)
            }
            _ => match self.c.word() {
                Some("unknown" | "?") => self.locations.push(Location::Unknown),
                Some("callsite") => {
                    self.c.expect("(")?;
                    let callee = self.location_inside()?;
                    self.c.expect_word("at")?;
                    let caller = self.location_inside()?;
                    self.c.expect(")")?;
                    self.locations.push(Location::CallSite { callee, caller })
                }
                Some("fused") => {
                    if self.c.eat("<") {
                        self.c.balanced()?;
                        self.c.expect(">")?;
                    }
                    let mut parts = Vec::new();
                    self.c.expect("[")?;
                    if !self.c.eat("]") {
                        loop {
                            parts.push(self.location_inside()?);
                            if !self.c.eat(",") {
                                self.c.expect("]")?;
                                break;
                            }
                        }
                    }
                    self.locations.push(Location::Fused(parts))
                }
                _ => return Err(self.c.expected("a location")),
            },
        };
        self.c.leave();
        Ok(id)
    }

    fn position(&mut self, start: usize) -> Result<u32> {
        let value = self.c.int("a line or a column")?;
        u32::try_from(value).map_err(|_| self.c.error(start, "expected a line and a column that fit 32 bits".into()))
    }

    /// Files and names are repeated often.
    fn intern(&mut self, text: String) -> Arc<str> {
        match self.interned.get(text.as_str()) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = text.into();
                self.interned.insert(Arc::clone(&new));
                new
            }
        }
    }

    /// `#loc1 = loc(...)`: fills in what earlier uses refer to.
    pub(super) fn location_alias(&mut self, name: &'a str) -> Result<()> {
        let id = self.location()?;
        let location = self.locations[id].clone();
        match self.location_aliases.get_mut(name) {
            Some((known, pending)) => {
                self.locations[*known] = location;
                *pending = None;
            }
            None => {
                self.location_aliases.insert(name, (id, None));
            }
        }
        Ok(())
    }
}
