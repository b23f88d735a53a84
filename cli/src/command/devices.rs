//! `brolga run` on several devices: a thread each.

use crate::command::args::RunArgs;
use crate::command::failure::Failure;
use crate::command::input::Parameters;
use crate::command::run::{compiled, flat, object, show, whole, write_outputs};
use crate::command::source::{Input, Source, load};
use crate::command::{feeds, freeze, input, output, program};
use brolga_compiler::hlo::Module;
use brolga_compiler::interp;
use brolga_runtime::devices::{Device, DeviceError, Devices};
use brolga_runtime::feed::Feeds;
use brolga_runtime::{ArrayLiteral, Literal, Program, RunError, RunOptions};
use std::sync::Arc;

/// Runs a module, or the object of one, on `devices` devices. Inputs come device by device, and so do results.
pub fn run(args: &RunArgs, devices: usize) -> Result<(), Failure> {
    if !args.expect.is_empty() {
        return Err(Failure::Usage("--expect is for one device".to_owned()));
    }
    let results = match load(&args.module, &args.shapes.with_inputs(&args.input, &args.freeze)?)? {
        Input::Module(mut module, source) => {
            let frozen = freeze::apply(&args.freeze, &mut module, &source)?;
            let own = source.inputs_without(&frozen);
            let inputs = inputs(args, devices, &Parameters::of_module(&module), &own)?;
            run_module(args, devices, &module, &source, &inputs)?
        }
        Input::Object(bytes) => {
            let (program, parameters) = object(args, &bytes)?;
            let inputs = inputs(args, devices, &parameters, &[])?;
            let results = call(args, devices, &program, &inputs)?;
            results.into_iter().map(|(d, leaves)| (d, flat(leaves))).collect()
        }
    };
    for (device, result) in &results {
        match &args.output_dir {
            Some(dir) => write_outputs(dir, &format!("out{device}_"), result)?,
            None => output::print(&format!("device {device}\n{}", show(result)?))?,
        }
    }
    Ok(())
}

/// The arguments of each device. A device without parameters still needs its empty list.
fn inputs(
    args: &RunArgs,
    devices: usize,
    parameters: &Parameters,
    own: &[Literal],
) -> Result<Vec<Vec<Literal>>, Failure> {
    let count = parameters.shapes().len();
    let mut all = input::gather_or(&args.input, &parameters.on_devices(devices), own)?.into_iter();
    Ok((0..devices).map(|_| all.by_ref().take(count).collect()).collect())
}

fn run_module(
    args: &RunArgs,
    devices: usize,
    module: &Module,
    source: &Arc<Source>,
    inputs: &[Vec<Literal>],
) -> Result<Vec<(usize, Literal)>, Failure> {
    if let Some(program) = compiled(args, module, source)? {
        program::report_undefined(program.undefined_symbols(), args.strict_symbols)?;
        let results = call(args, devices, &program, inputs)?;
        return results.into_iter().map(|(d, leaves)| Ok((d, whole(module, leaves)?))).collect();
    }
    let (replicas, partitions) = (args.replicas as usize, args.partitions as usize);
    let options = interp::Options { timeout: args.timeout(), ..interp::Options::default() };
    let feeds = feeds::feeds(args, devices)?;
    let results = interp::run_devices_fed(module, inputs, replicas, partitions, &options, &feeds);
    Ok(results.map_err(|e| Failure::program(e, source))?.into_iter().enumerate().collect())
}

/// What each device of this process gives, with the device's number.
type Results = Vec<(usize, Vec<ArrayLiteral>)>;

/// Calls a compiled program on each device of this process.
fn call(args: &RunArgs, devices: usize, program: &Program, inputs: &[Vec<Literal>]) -> Result<Results, Failure> {
    #[cfg(feature = "mpi")]
    if mpi::is_one_of_several() {
        return mpi::call(args, program, inputs);
    }
    let mut all = Devices::local(args.replicas as usize, args.partitions as usize).map_err(failed)?;
    if let Some(limit) = args.timeout() {
        all = all.with_timeout(limit);
    }
    let feeds = feeds::feeds(args, devices)?;
    let outcome = all.run_each(|device| {
        let number = device.place().device;
        call_one(args, program, device, inputs.get(number), feeds.get(number))
    });
    let results = outcome.map_err(|e: DeviceError<RunError>| Failure::Run(e.to_string()))?;
    Ok(results.into_iter().enumerate().collect())
}

/// Calls a compiled program on one device.
fn call_one(
    args: &RunArgs,
    program: &Program,
    device: &Device,
    inputs: Option<&Vec<Literal>>,
    feeds: Option<&Feeds>,
) -> Result<Vec<ArrayLiteral>, RunError> {
    let leaves: Vec<&ArrayLiteral> = inputs.into_iter().flatten().flat_map(Literal::arrays).collect();
    let options = RunOptions {
        threads: args.threads as usize,
        feeds: feeds.cloned().unwrap_or_default(),
        device: Some(device.clone()),
        ..RunOptions::default()
    };
    program.run_with(&leaves, &options)
}

fn failed(error: RunError) -> Failure {
    Failure::Run(error.to_string())
}

/// A process that `mpirun` started is one device.
#[cfg(feature = "mpi")]
mod mpi {
    use super::{Failure, Literal, Program, Results, RunArgs, call_one, failed, feeds};
    use brolga_runtime::devices::Mpi;
    use std::time::Duration;

    /// Processes do not notice by themselves that everybody waits.
    const LIMIT: Duration = Duration::from_secs(300);

    /// Whether `mpirun` started this process: what Open MPI, and what MPICH and its kin, tell it.
    pub fn is_one_of_several() -> bool {
        ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].iter().any(|name| std::env::var_os(name).is_some())
    }

    /// Calls a compiled program as this process's device. The other processes end with it where it fails.
    pub fn call(args: &RunArgs, program: &Program, inputs: &[Vec<Literal>]) -> Result<Results, Failure> {
        let (replicas, partitions) = (args.replicas as usize, args.partitions as usize);
        let feeds = feeds::feeds(args, replicas * partitions)?;
        let device = Mpi::connect(replicas, partitions, Some(args.timeout().unwrap_or(LIMIT))).map_err(failed)?;
        let number = device.place().device;
        let outcome = call_one(args, program, &device, inputs.get(number), feeds.get(number));
        if let Err(error) = &outcome {
            device.fail(&error.to_string());
        }
        Ok(vec![(number, outcome.map_err(|e| Failure::Run(format!("device {number}: {e}")))?)])
    }
}
