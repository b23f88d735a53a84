//! What this machine computes, as bytes of buffers.

use super::parts;
use super::samples::Sample;
use crate::compare::first_other_element;
use brolga_compiler::Artifact;
use brolga_runtime::abi::Leaf;
use brolga_runtime::{Program, RunOptions};

/// The buffers of a sample, as its leaves' layouts say.
pub(super) struct Reference {
    /// The parameters.
    pub(super) parameters: Vec<Vec<u8>>,
    /// The results, or how the program fails.
    pub(super) results: Result<Vec<Vec<u8>>, String>,
}

impl Reference {
    /// Runs a sample that was compiled for this machine. One that needs services is not run.
    pub(super) fn new(artifact: &Artifact, sample: &Sample) -> Result<Reference, String> {
        let program = Program::from_object(&artifact.object).map_err(|e| e.to_string())?;
        let devices = artifact.descriptor.devices.iter().any(|&count| count > 1);
        let session = if devices { Err("several devices".to_owned()) } else { Ok(()) };
        let session = session.and_then(|()| program.session(&RunOptions::default()).map_err(|e| e.to_string()));
        let mut session = match session {
            Ok(session) => session,
            Err(what) => {
                let zeros = |leaf: &Leaf| vec![0; leaf.byte_size() as usize];
                let parameters = artifact.descriptor.parameters.iter().map(zeros).collect();
                return Ok(Reference { parameters, results: Err(what) });
            }
        };
        let mut parameters = Vec::new();
        for (i, input) in sample.inputs.iter().enumerate() {
            session.set_parameter(i, input).map_err(|e| e.to_string())?;
            parameters.extend(session.parameter_bytes_mut(i).map(|bytes| bytes.to_vec()));
        }
        if artifact.descriptor.needed_services.0 != 0 {
            return Ok(Reference { parameters, results: Err("services".to_owned()) });
        }
        let results = session.call().map_err(|e| e.to_string()).map(|()| {
            let count = artifact.descriptor.results.len();
            (0..count).filter_map(|i| session.result_bytes(i).map(<[u8]>::to_vec)).collect()
        });
        Ok(Reference { parameters, results })
    }

    /// Compares the results of another machine, whose leaves are these.
    pub(super) fn compare(&self, leaves: &[Leaf], results: &[Vec<u8>]) -> Result<(), String> {
        let want = self.results.as_ref().map_err(|what| format!("it returns 0, and here it fails: {what}"))?;
        if want.len() != results.len() {
            return Err(format!("{} results, {} here", results.len(), want.len()));
        }
        for (number, ((leaf, got), want)) in leaves.iter().zip(results).zip(want).enumerate() {
            let ((got, got_sizes), (want, want_sizes)) = (parts(leaf, got), parts(leaf, want));
            let ty = leaf.shape.ty;
            if let Some(element) = first_other_element(ty, got, want) {
                let size = ty.byte_size();
                let at = element * size;
                let [got, want] = [got, want].map(|bytes| bytes.get(at..at + size));
                return Err(format!("element {element} of result {number} ({ty}) is {got:02x?}, and {want:02x?} here"));
            }
            if got_sizes != want_sizes {
                return Err(format!("the sizes of result {number} are {got_sizes:?}, and {want_sizes:?} here"));
            }
        }
        Ok(())
    }
}
