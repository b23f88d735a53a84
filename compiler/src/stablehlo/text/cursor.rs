//! The lexical classes of MLIR, asked for one at a time.
//!
//! Every method that takes something skips blanks and comments first.

use crate::hlo::SourceLocation;
use crate::stablehlo::ir::MAX_NESTING;
use crate::{Error, Result, Site};
use std::cell::Cell;

/// The longest piece of source text quoted in an error.
const QUOTED: usize = 48;

/// An offset whose line and column are known.
#[derive(Clone, Copy)]
struct Mark {
    offset: usize,
    line: u32,
    column: u32,
}

const BEGINNING: Mark = Mark { offset: 0, line: 1, column: 1 };

pub(super) struct Cursor<'a> {
    source: &'a str,
    pos: usize,
    /// Locations are asked for in rising order, so that counting goes on from here and stays linear.
    mark: Cell<Mark>,
    depth: usize,
}

/// A length within which all bytes are of the class, short of the first that is not by less than a chunk: chunks are looked at
/// without a way out in the middle, which the compiler makes vectors of.
fn leading(bytes: &[u8], class: impl Fn(u8) -> bool) -> usize {
    const CHUNK: usize = 64;
    let is_whole = |chunk: &&[u8]| chunk.iter().fold(true, |all, &b| all & class(b));
    CHUNK * bytes.chunks_exact(CHUNK).take_while(is_whole).count()
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a str) -> Result<Cursor<'a>> {
        if u32::try_from(source.len()).is_err() {
            let message = "expected a text of less than 4 GiB".to_owned();
            return Err(Error::Syntax { site: Site::default(), message });
        }
        Ok(Cursor { source, pos: 0, mark: Cell::new(BEGINNING), depth: 0 })
    }

    pub(super) fn source(&self) -> &'a str {
        self.source
    }

    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    /// Goes to a position that [`Cursor::start`] or [`Cursor::pos`] gave.
    pub(super) fn rewind(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Where the next token starts.
    pub(super) fn start(&mut self) -> usize {
        self.skip();
        self.pos
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.source.get(start..self.pos).unwrap_or_default()
    }

    /// The unread bytes, blanks included.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.source.as_bytes().get(self.pos..).unwrap_or_default()
    }

    fn skip(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.pos += 1,
                rest @ [b'/', b'/', ..] => {
                    self.pos += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// The first byte of the next token.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.rest().first().copied()
    }

    /// Whether `text` comes next.
    pub(super) fn at(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text.as_bytes())
    }

    /// Takes the punctuation `text`, if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.at(text);
        self.pos += if found { text.len() } else { 0 };
        found
    }

    /// Takes the punctuation `text`, or says that it was expected.
    pub(super) fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(&format!("'{text}'"))) }
    }

    /// Takes a run of bytes that `class` admits, which must be ASCII.
    pub(super) fn run(&mut self, class: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.iter().position(|&b| !class(b)).unwrap_or(rest.len());
        let start = self.pos;
        self.pos += len;
        self.source.get(start..self.pos).unwrap_or_default()
    }

    /// As [`Cursor::run`], for runs of megabytes.
    pub(super) fn long_run(&mut self, class: impl Fn(u8) -> bool) {
        self.pos += leading(self.rest(), &class);
        self.run(class);
    }

    /// Takes a bare word: a keyword, or an operation's name.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        match self.peek() {
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => Some(self.run(is_word_byte)),
            _ => None,
        }
    }

    /// Takes the keyword `word`, if it comes next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let start = self.start();
        let found = self.word() == Some(word);
        if !found {
            self.pos = start;
        }
        found
    }

    /// Takes the keyword `word`, or says that it was expected.
    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("'{word}'"))) }
    }

    /// Takes the next word without moving.
    pub(super) fn peek_word(&mut self) -> Option<&'a str> {
        let start = self.start();
        let word = self.word();
        self.pos = start;
        word
    }

    /// Takes the name behind a sigil (`%`, `#`, `!`, `^`): digits, or a word that may hold dashes.
    pub(super) fn name(&mut self, sigil: &str, what: &str) -> Result<&'a str> {
        let start = self.start();
        if self.eat(sigil) {
            let name = if self.rest().first().is_some_and(u8::is_ascii_digit) {
                self.run(|b| b.is_ascii_digit())
            } else {
                self.run(|b| is_word_byte(b) || b == b'-')
            };
            if !name.is_empty() {
                return Ok(name);
            }
        }
        self.pos = start;
        Err(self.expected(what))
    }

    /// Takes `@name` or `@"any text"`.
    pub(super) fn symbol(&mut self) -> Result<String> {
        let start = self.start();
        self.expect("@")?;
        if self.rest().first() == Some(&b'"') {
            let bytes = self.string("a name in quotes")?;
            return String::from_utf8(bytes).map_err(|_| self.error(start, "expected a name in UTF-8".to_owned()));
        }
        match self.run(|b| is_word_byte(b) || b == b'-') {
            "" => Err(self.expected("a name after '@'")),
            name => Ok(name.to_owned()),
        }
    }

    /// Takes a decimal or hexadecimal integer that fits 64 bits, with or without sign.
    pub(super) fn int(&mut self, what: &str) -> Result<i64> {
        let start = self.start();
        let text = self.int_text(what)?;
        to_i128(text)
            .and_then(fit)
            .ok_or_else(|| self.error(start, format!("expected {what} that fits 64 bits, found '{}'", shorten(text))))
    }

    /// Takes the text of an integer.
    pub(super) fn int_text(&mut self, what: &str) -> Result<&'a str> {
        let start = self.start();
        self.eat("-");
        let digits = self.run(|b| b.is_ascii_digit());
        if digits == "0" && self.rest().first() == Some(&b'x') && self.rest().get(1).is_some_and(u8::is_ascii_hexdigit)
        {
            self.pos += 1;
            self.run(|b| b.is_ascii_hexdigit());
        }
        if digits.is_empty() {
            self.pos = start;
            return Err(self.expected(what));
        }
        Ok(self.since(start))
    }

    /// Takes `[1, 2]`.
    pub(super) fn ints(&mut self, what: &str) -> Result<Vec<i64>> {
        let mut out = Vec::new();
        self.list("[", "]", |c| {
            out.push(c.int(what)?);
            Ok(())
        })?;
        Ok(out)
    }

    /// Takes `open`, items with commas between them, and `close`.
    pub(super) fn list(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.eat(",") {
                return self.expect(close);
            }
        }
    }

    /// Takes a string in double quotes and undoes its escapes: the result may be any bytes.
    pub(super) fn string(&mut self, what: &str) -> Result<Vec<u8>> {
        let start = self.start();
        let text = self.quoted(what)?;
        unescape(text.as_bytes()).ok_or_else(|| self.error(start, format!("expected {what}, found a cut escape")))
    }

    /// Takes a string in double quotes as it stands, quotes left off.
    pub(super) fn quoted(&mut self, what: &str) -> Result<&'a str> {
        if !self.at("\"") {
            return Err(self.expected(what));
        }
        let start = self.pos;
        let bytes = self.source.as_bytes();
        let inside = bytes.get(start + 1..).unwrap_or_default();
        let mut at = start + 1 + leading(inside, |b| b != b'"' && b != b'\\' && b != b'\n');
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(b'\n') | None => {
                    let message = "expected a closing '\"' on the line".to_owned();
                    return Err(self.error_span(start, start + 1, message));
                }
                Some(_) => at += 1,
            }
        }
        self.pos = at + 1;
        Ok(self.source.get(start + 1..at).unwrap_or_default())
    }

    /// Takes text up to the bracket that closes one opened before, which stays: balanced brackets and strings.
    pub(super) fn balanced(&mut self) -> Result<&'a str> {
        let start = self.pos;
        let mut open: Vec<u8> = Vec::new();
        loop {
            let rest = self.rest();
            match rest.first() {
                None => return Err(self.expected("a closing bracket")),
                Some(b'"') => {
                    self.quoted("a string")?;
                    continue;
                }
                Some(b'-') if rest.get(1) == Some(&b'>') => self.pos += 1,
                Some(&b @ (b'(' | b'[' | b'{' | b'<')) => {
                    if open.len() == MAX_NESTING {
                        return Err(self.too_deep("brackets"));
                    }
                    open.push(b);
                }
                Some(&b @ (b')' | b']' | b'}' | b'>')) => match open.pop() {
                    None => return Ok(self.since(start)),
                    Some(opening) if closing(opening) == b => {}
                    Some(opening) => return Err(self.expected(&format!("'{}'", char::from(closing(opening))))),
                },
                Some(_) => {}
            }
            self.pos += 1;
        }
    }

    /// Enters a nested construct; [`Cursor::leave`] when it is done.
    pub(super) fn enter(&mut self, what: &str) -> Result<()> {
        if self.depth == MAX_NESTING {
            return Err(self.too_deep(what));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn too_deep(&mut self, what: &str) -> Error {
        self.expected(&format!("at most {MAX_NESTING} levels of {what}"))
    }

    /// Line and column of an offset.
    pub(super) fn locate(&self, offset: usize) -> SourceLocation {
        let mut mark = self.mark.get();
        if offset < mark.offset {
            mark = BEGINNING;
        }
        let bytes = self.source.as_bytes().get(mark.offset..offset).unwrap_or_default();
        let lines = bytes.iter().filter(|&&b| b == b'\n').count();
        let tail = if lines == 0 {
            bytes
        } else {
            mark.column = 1;
            let last = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
            bytes.get(last..).unwrap_or_default()
        };
        // Columns count characters: bytes that do not go on with one.
        let columns = tail.iter().filter(|&&b| b & 0xc0 != 0x80).count();
        mark.line += lines as u32;
        mark.column += columns as u32;
        mark.offset = offset;
        self.mark.set(mark);
        SourceLocation::in_text(mark.line, mark.column)
    }

    /// "expected X, found 'Y'", where Y is the next token.
    pub(super) fn expected(&mut self, what: &str) -> Error {
        let start = self.start();
        let rest = self.source.get(start..).unwrap_or_default();
        let found = match rest.bytes().next() {
            None => return self.error_span(start, start, format!("expected {what}, found the end of the text")),
            Some(b) if is_word_byte(b) || matches!(b, b'%' | b'@' | b'#' | b'!' | b'^') => {
                let len = rest.bytes().skip(1).position(|b| !is_word_byte(b)).map_or(rest.len(), |n| n + 1);
                rest.get(..len).unwrap_or(rest)
            }
            Some(_) => rest.char_indices().nth(1).map_or(rest, |(n, _)| rest.get(..n).unwrap_or(rest)),
        };
        let message = format!("expected {what}, found '{}'", shorten(found).escape_debug());
        self.error_span(start, start + found.len(), message)
    }

    /// An error about the text from `start` to here.
    pub(super) fn error(&self, start: usize, message: String) -> Error {
        self.error_span(start, self.pos, message)
    }

    pub(super) fn error_span(&self, start: usize, end: usize, message: String) -> Error {
        Error::Syntax { site: self.site(start, end), message }
    }

    pub(super) fn unsupported(&self, start: usize, feature: impl Into<String>) -> Error {
        Error::Unsupported { site: self.site(start, self.pos), feature: feature.into() }
    }

    fn site(&self, start: usize, end: usize) -> Site {
        let length = self.source.get(start..end).map_or(0, |t| t.chars().count());
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Site { instruction: None, location: self.locate(start), length }
    }
}

fn closing(opening: u8) -> u8 {
    match opening {
        b'{' => b'}',
        b'[' => b']',
        b'<' => b'>',
        _ => b')',
    }
}

/// The beginning of `text`, short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((n, _)) => format!("{}...", text.get(..n).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The value of a decimal or hexadecimal integer.
pub(super) fn to_i128(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.checked_neg()? } else { value })
}

/// The 64 bits of a value that has no more; those above `i64::MAX` wrap.
pub(super) fn fit(value: i128) -> Option<i64> {
    i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(|v| v as i64))
}

/// Undoes MLIR's escapes: `\n`, `\t`, `\\`, `\"` and two hexadecimal digits.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next()? {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b @ (b'\\' | b'"') => out.push(b),
            high => {
                let (high, low) = (char::from(high).to_digit(16)?, char::from(bytes.next()?).to_digit(16)?);
                out.push((high * 16 + low) as u8);
            }
        }
    }
    Some(out)
}
