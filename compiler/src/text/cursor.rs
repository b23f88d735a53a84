//! A position in the text, and the lexical classes of HLO.
//!
//! Invariant: `pos` lies on a character boundary. Every method that takes something skips blanks and comments first,
//! and leaves the cursor where it was when it returns `None`, `false` or an error.

use super::MAX_NESTING;
use crate::hlo::SourceLocation;
use crate::shape::RuleError;
use crate::{Error, Result, Site};
use std::cell::Cell;

/// The longest piece of source text quoted in an error.
const QUOTED: usize = 48;

pub(crate) struct Cursor<'a> {
    source: &'a str,
    pos: usize,
    /// The last offset that was turned into a location, with its result: locations are asked for in rising order, so
    /// that counting goes on from here and stays linear even where a module is one long line.
    mark: Cell<(usize, SourceLocation)>,
    /// The instruction being read, for errors.
    pub(crate) instruction: Option<&'a str>,
    /// How deep the constructs being read nest.
    depth: usize,
}

/// Characters of names, keywords, opcodes and attribute names.
fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(source: &'a str) -> Result<Cursor<'a>> {
        if u32::try_from(source.len()).is_err() {
            let message = "expected a text of less than 4 GiB".to_owned();
            return Err(Error::Syntax { site: Site::default(), message });
        }
        let mark = Cell::new((0, SourceLocation::in_text(1, 1)));
        Ok(Cursor { source, pos: 0, mark, instruction: None, depth: 0 })
    }

    /// Where the next token starts.
    pub(crate) fn start(&mut self) -> usize {
        self.skip();
        self.pos
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    /// Goes back to a position that [`Cursor::start`] or [`Cursor::pos`] gave.
    pub(crate) fn rewind(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Steps over one character, whatever it is.
    pub(crate) fn advance(&mut self) {
        self.pos += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// The text from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.source.get(start..self.pos).unwrap_or_default()
    }

    /// The unread rest.
    fn rest(&self) -> &'a str {
        self.source.get(self.pos..).unwrap_or_default()
    }

    /// The unread bytes.
    fn ahead(&self) -> &'a [u8] {
        self.source.as_bytes().get(self.pos..).unwrap_or_default()
    }

    /// Takes what `read` finds at the beginning of the unread bytes: a value, and how many bytes of ASCII it takes.
    pub(crate) fn take<T>(&mut self, read: impl FnOnce(&[u8]) -> Option<(T, usize)>) -> Option<T> {
        self.skip();
        let (value, length) = read(self.ahead())?;
        self.pos += length;
        Some(value)
    }

    /// The byte here, blanks included.
    pub(crate) fn byte(&self) -> Option<u8> {
        self.source.as_bytes().get(self.pos).copied()
    }

    /// Skips blanks and comments. A comment that does not end stays, and shows up as the next token.
    fn skip(&mut self) {
        loop {
            match self.ahead() {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.pos += 1,
                rest @ [b'/', b'/', ..] => self.pos += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => match self.rest().get(2..).and_then(|t| t.find("*/")) {
                    Some(n) => self.pos += n + 4,
                    None => return,
                },
                _ => return,
            }
        }
    }

    /// The first byte of the next token.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.byte()
    }

    /// Takes the punctuation `text`, if it comes next.
    pub(crate) fn eat(&mut self, text: &str) -> bool {
        self.skip();
        let found = self.ahead().starts_with(text.as_bytes());
        if found {
            self.pos += text.len();
        }
        found
    }

    /// Takes the punctuation `text`, or says that it was expected.
    pub(crate) fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(&format!("'{text}'"))) }
    }

    /// The text must end here.
    pub(crate) fn expect_end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the text")),
        }
    }

    /// Takes a run of bytes that `class` admits; `None` where it is empty.
    pub(crate) fn run(&mut self, class: impl Fn(u8) -> bool) -> Option<&'a str> {
        self.skip();
        let rest = self.rest();
        let len = rest.bytes().position(|b| !class(b)).unwrap_or(rest.len());
        let text = rest.get(..len).filter(|t| !t.is_empty())?;
        self.pos += len;
        Some(text)
    }

    /// Takes a bare word: an opcode, a keyword, an attribute name, an element type, a name without `%`.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        match self.peek() {
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => self.run(is_name_byte),
            _ => None,
        }
    }

    /// Takes a name, `%` allowed and dropped.
    pub(crate) fn name(&mut self, what: &str) -> Result<&'a str> {
        let start = self.start();
        if self.byte() == Some(b'%') {
            self.pos += 1;
            if self.byte().is_some_and(|b| is_name_byte(b) && b != b'-' && b != b'.')
                && let Some(name) = self.run(is_name_byte)
            {
                return Ok(name);
            }
            self.pos = start;
        } else if let Some(name) = self.word() {
            return Ok(name);
        }
        Err(self.expected(what))
    }

    /// Takes an integer.
    pub(crate) fn int(&mut self, what: &str) -> Result<i64> {
        let start = self.start();
        if self.byte() == Some(b'-') {
            self.pos += 1;
        }
        let digits =
            if self.byte().is_some_and(|b| b.is_ascii_digit()) { self.run(|b| b.is_ascii_digit()) } else { None };
        if digits.is_none() {
            self.pos = start;
            return Err(self.expected(what));
        }
        let text = self.since(start);
        text.parse()
            .map_err(|_| self.error(start, format!("expected {what} that fits 64 bits, found '{}'", shorten(text))))
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Result<bool> {
        let start = self.start();
        match self.word() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => {
                self.rewind(start);
                Err(self.expected("'true' or 'false'"))
            }
        }
    }

    /// Takes an integer that is not negative.
    pub(crate) fn size(&mut self, what: &str) -> Result<usize> {
        let start = self.start();
        let value = self.int(what)?;
        usize::try_from(value).map_err(|_| self.error(start, format!("expected {what}, found '{value}'")))
    }

    /// Takes a string in double or single quotes and undoes its escapes.
    pub(crate) fn string(&mut self, what: &str) -> Result<String> {
        let start = self.start();
        self.quoted(what)?;
        let text = self.since(start);
        let inner = text.get(1..text.len() - 1).unwrap_or_default();
        unescape(inner).ok_or_else(|| self.error(start, format!("expected {what} in UTF-8, found '{}'", shorten(text))))
    }

    /// Takes a quoted string as it stands.
    fn quoted(&mut self, what: &str) -> Result<()> {
        let start = self.start();
        let Some(quote) = self.byte().filter(|b| matches!(b, b'"' | b'\'')) else {
            return Err(self.expected(what));
        };
        let bytes = self.source.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                Some(&b) if b == quote => break,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => {
                    let message = format!("expected a closing '{}', found the end", char::from(quote));
                    return Err(self.error_span(start, start + 1, message));
                }
            }
        }
        self.pos = at + 1;
        Ok(())
    }

    /// Takes balanced text as it stands: brackets, quoted strings and bare characters, up to a comma, a blank or a
    /// closing bracket that stand outside of all brackets.
    pub(crate) fn raw(&mut self, what: &str) -> Result<&'a str> {
        let start = self.start();
        let mut open = Vec::new();
        while let Some(b) = self.byte() {
            match b {
                b'"' => {
                    self.quoted(what)?;
                    continue;
                }
                b'{' | b'[' | b'(' => {
                    if open.len() == MAX_NESTING {
                        return Err(self.too_deep("brackets"));
                    }
                    open.push((b, self.pos));
                }
                b'}' | b']' | b')' => match open.pop() {
                    Some((opening, _)) if closing(opening) == b => {}
                    Some((opening, _)) => {
                        return Err(self.expected(&format!("'{}'", char::from(closing(opening)))));
                    }
                    None => break,
                },
                b',' | b' ' | b'\t' | b'\r' | b'\n' if open.is_empty() => break,
                _ => {}
            }
            // Bytes of multi-byte characters match no arm above, so the run ends on a boundary.
            self.pos += 1;
        }
        if let Some((opening, at)) = open.pop() {
            let message = format!("expected '{}' for this bracket, found the end", char::from(closing(opening)));
            return Err(self.error_span(at, at + 1, message));
        }
        match self.since(start) {
            "" => Err(self.expected(what)),
            text => Ok(text),
        }
    }

    /// What `read` takes, or nothing.
    pub(crate) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        let (pos, depth) = (self.pos, self.depth);
        let taken = read(self).ok();
        if taken.is_none() {
            (self.pos, self.depth) = (pos, depth);
        }
        taken
    }

    /// Enters a nested construct; [`Cursor::leave`] when it is done.
    pub(crate) fn enter(&mut self, what: &str) -> Result<()> {
        if self.depth == MAX_NESTING {
            return Err(self.too_deep(what));
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn too_deep(&mut self, what: &str) -> Error {
        self.expected(&format!("at most {MAX_NESTING} levels of {what}"))
    }

    /// Line and column of an offset.
    pub(crate) fn locate(&self, offset: usize) -> SourceLocation {
        let (mut at, mut location) = self.mark.get();
        if offset < at {
            (at, location) = (0, SourceLocation::in_text(1, 1));
        }
        for c in self.source.get(at..offset).unwrap_or_default().chars() {
            if c == '\n' {
                location = SourceLocation::in_text(location.line + 1, 1);
            } else {
                location.column += 1;
            }
        }
        self.mark.set((offset, location));
        location
    }

    /// "expected X, found 'Y'", where Y is the next token.
    pub(crate) fn expected(&mut self, what: &str) -> Error {
        self.expected_name(what, [])
    }

    /// As [`Cursor::expected`], where one of `names` should stand.
    pub(crate) fn expected_name<'n>(&mut self, what: &str, names: impl IntoIterator<Item = &'n str>) -> Error {
        let start = self.start();
        let rest = self.rest();
        let found = match rest.bytes().next() {
            None => {
                return self.error_span(start, start, format!("expected {what}, found the end of the text"));
            }
            Some(b) if is_name_byte(b) || b == b'%' => {
                let len = rest.bytes().skip(1).position(|b| !is_name_byte(b)).map_or(rest.len(), |n| n + 1);
                rest.get(..len).unwrap_or(rest)
            }
            Some(_) => rest.char_indices().nth(1).map_or(rest, |(n, _)| rest.get(..n).unwrap_or(rest)),
        };
        let hint = crate::error::suggestion(found, names);
        let message = format!("expected {what}, found '{}'{hint}", shorten(found).escape_debug());
        self.error_span(start, start + found.len(), message)
    }

    /// An error about the text from `start` to here.
    pub(crate) fn error(&self, start: usize, message: String) -> Error {
        self.error_span(start, self.pos, message)
    }

    /// An error about the text from `start` to `end`, which breaks a rule.
    pub(crate) fn invalid(&self, (start, end): (usize, usize), e: RuleError) -> Error {
        e.into_error(self.site(start, end))
    }

    pub(crate) fn error_span(&self, start: usize, end: usize, message: String) -> Error {
        Error::Syntax { site: self.site(start, end), message }
    }

    fn site(&self, start: usize, end: usize) -> Site {
        let length = self.source.get(start..end).map_or(0, |t| t.chars().count());
        Site {
            instruction: self.instruction.map(str::to_owned),
            location: self.locate(start),
            length: u32::try_from(length).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn unsupported(&self, start: usize, feature: &str) -> Error {
        Error::Unsupported { site: self.site(start, self.pos), feature: feature.to_owned() }
    }
}

fn closing(opening: u8) -> u8 {
    match opening {
        b'{' => b'}',
        b'[' => b']',
        _ => b')',
    }
}

/// The beginning of `text`, short enough for a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((n, _)) => format!("{}...", text.get(..n).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Undoes C escapes; `None` where the result is not UTF-8 or an escape is cut.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().peekable();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next()? {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'x' => {
                let mut code = 0u8;
                for _ in 0..2 {
                    let Some(digit) = bytes.peek().and_then(|&b| char::from(b).to_digit(16)) else { break };
                    code = (code << 4) | digit as u8;
                    bytes.next();
                }
                out.push(code);
            }
            first @ b'0'..=b'7' => {
                let mut code = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.peek().and_then(|&b| char::from(b).to_digit(8)) else { break };
                    code = code << 3 | digit;
                    bytes.next();
                }
                out.push(u8::try_from(code).ok()?);
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}
