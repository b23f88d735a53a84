//! Failures as people read them: file, line and column, and the source line underlined.

use crate::command::failure::Failure;
use crate::command::source::Source;
use ariadne::{Color, Config, Label, Report, ReportKind};
use brolga_compiler::{Error, Site};
use std::fmt::Display;
use std::io::IsTerminal;

/// Source lines longer than this (constants run to megabytes) are shown as an excerpt around the place.
const LONGEST_LINE: usize = 240;

/// Writes the failure to standard error.
pub fn report(failure: &Failure) {
    match failure {
        Failure::Program { error, source } => program(error, source.as_deref()),
        Failure::File { path, reason } => plain(format_args!("{}: {reason}", path.display())),
        Failure::Input(message) | Failure::Size(message) | Failure::Run(message) | Failure::Usage(message) => {
            plain(message);
        }
        Failure::Unsupported(feature) => plain(format_args!("not supported yet: {feature}")),
        Failure::Closed => {}
    }
}

fn plain(message: impl Display) {
    eprintln!("error: {}", printable(&message.to_string()));
}

/// A text in which bytes that would steer a terminal are pictures of themselves, one character each.
fn printable(text: &str) -> String {
    let picture = |c: char| match c {
        '\n' | '\t' => c,
        '\u{7f}' => '\u{2421}',
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        // The other control characters, and what turns the direction of writing around.
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => c,
    };
    text.chars().map(picture).collect()
}

fn program(error: &Error, source: Option<&Source>) {
    if let (Some(site), Some(source)) = (error.site(), source)
        && excerpt(error, site, source).is_some()
    {
        return;
    }
    match source {
        Some(source) => plain(format_args!("{}: {error}", source.name())),
        None => plain(error),
    }
}

/// `None` where the error has no place in the text.
fn excerpt(error: &Error, site: &Site, source: &Source) -> Option<()> {
    let line_number = usize::try_from(site.location.line).ok().filter(|&n| n > 0)?;
    let text = printable(source.text().lines().nth(line_number - 1).unwrap_or(""));
    let length = text.chars().count();
    let column = (site.location.column.max(1) as usize - 1).min(length);
    let width = (site.length.max(1) as usize).min(length.saturating_sub(column).max(1));

    let mut message = error.message();
    if let Some(name) = &site.instruction {
        message = format!("instruction '{name}': {message}");
    }
    let (mut shown, mut at) = (text.clone(), column);
    let mut note = None;
    if length > LONGEST_LINE {
        let start = column.saturating_sub(LONGEST_LINE / 2);
        shown = text.chars().skip(start).take(LONGEST_LINE).collect();
        at = column - start;
        note = Some(format!(
            "the place is column {} of a line of {length} characters; the excerpt starts at column {}",
            column + 1,
            start + 1
        ));
    }
    // A place behind the last character, as at the end of the file, must still be on the line for the reporter.
    shown.push(' ');
    let width = width.min(shown.chars().count().saturating_sub(at).max(1));
    // Only the one line is given to the reporter, behind empty ones, so that its work hardly grows with the file.
    let name = printable(source.name());
    let before = line_number - 1;
    let span = (name.clone(), before + at..before + at + width);
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut report = Report::build(ReportKind::Error, span.clone())
        .with_config(Config::default().with_color(color))
        .with_message(printable(&message))
        .with_label(Label::new(span).with_color(Color::Red).with_message("here"));
    if let Some(note) = note {
        report = report.with_note(note);
    }
    let cache = (name, ariadne::Source::from("\n".repeat(before) + &shown));
    report.finish().write(cache, std::io::stderr().lock()).ok()
}
