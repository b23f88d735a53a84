//! Where instructions were made: what their metadata and the module's tables of stack frames say.

use super::{kept, message, write};
use crate::hlo::{AttrKey, Instruction, Module};

/// The places that the metadata of a module's instructions name.
#[derive(Debug, Default)]
pub struct Origins(message::StackFrameIndex);

impl Origins {
    /// Those of a module; a table that does not read is as good as none, for it says nothing about values.
    pub fn of(module: &Module) -> Origins {
        let mut frames = message::StackFrameIndex::default();
        let mut tables = module.config.other.iter().filter(|(key, _)| write::is_table(key));
        let read = tables.try_for_each(|(key, value)| write::table(&mut frames, key, value));
        read.map_or_else(|_| Origins::default(), |()| Origins(frames))
    }

    /// The file, line and column where an instruction was made, the numbers 0 where they are not said: of a stack of frames, the
    /// innermost.
    pub fn place(&self, instruction: &Instruction) -> Option<(String, u32, u32)> {
        let metadata = kept::metadata_message(instruction.attrs.raw(AttrKey::Metadata)?).ok()?;
        let number = |n: i32| u32::try_from(n).unwrap_or(0);
        if !metadata.source_file.is_empty() {
            return Some((metadata.source_file, number(metadata.source_line), number(metadata.source_column)));
        }
        let row = |n: i32| usize::try_from(n).ok()?.checked_sub(1);
        let frame = self.0.frames.get(row(metadata.stack_frame_id)?)?;
        let location = self.0.locations.get(row(frame.file_location_id)?)?;
        let file = self.0.files.get(row(location.file_name_id)?)?;
        Some((file.clone(), number(location.line), number(location.column)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Origins;
    use crate::text;

    #[test]
    fn places_come_from_metadata_or_from_the_stack() {
        let tables = "FileNames\n1 \"a.py\"\n2 \"b.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n\
             1 {file_name_id=1 function_name_id=1 line=3}\n2 {file_name_id=2 function_name_id=1 line=5 column=7}\n\n\
             StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=1}\n\n";
        let of = |tables: &str, metadata: &str| {
            let program =
                format!("HloModule m\n\n{tables}ENTRY e {{ ROOT a = f32[] constant(1), metadata={{{metadata}}} }}");
            let module = text::parse(&program).unwrap();
            let entry = module.entry();
            Origins::of(&module).place(&entry.instructions[entry.root])
        };
        let place = |file: &str, line, column| Some((file.to_owned(), line, column));
        assert_eq!(of(tables, "op_name=\"x\" stack_frame_id=2"), place("b.py", 5, 7));
        assert_eq!(of(tables, "stack_frame_id=1"), place("a.py", 3, 0));
        assert_eq!(of(tables, "source_file=\"c.py\" source_line=9 stack_frame_id=1"), place("c.py", 9, 0));
        assert_eq!(of(tables, "stack_frame_id=3"), None);
        assert_eq!(of(tables, "op_name=\"x\""), None);
        assert_eq!(of("", "stack_frame_id=1"), None);
    }
}
