//! Running on all devices of a process.

use super::local::{Board, Local};
use super::{Device, MAX_DEVICES};
use crate::services::panic_text;
use crate::{ArrayLiteral, Program, RunError, RunOptions};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The devices of this process, a thread each.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (program, x): (brolga_runtime::Program, brolga_runtime::ArrayLiteral) = todo!();
/// use brolga_runtime::devices::Devices;
/// let devices = Devices::local(2, 1)?.with_timeout(std::time::Duration::from_secs(10));
/// let results = devices.run(&program, &[vec![&x], vec![&x]], &Default::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Devices {
    replicas: usize,
    partitions: usize,
    timeout: Option<Duration>,
}

/// Why a run on several devices failed: of the device that failed first, by itself and not because of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceError<E> {
    /// What was to run on a device gave this error.
    Failed {
        /// The device.
        device: usize,
        /// Its error.
        error: E,
    },
    /// What was to run on a device panicked.
    Panicked {
        /// The device.
        device: usize,
        /// What it said.
        message: String,
    },
}

impl<E: fmt::Display> fmt::Display for DeviceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Failed { device, error } => write!(f, "device {device}: {error}"),
            DeviceError::Panicked { device, message } => write!(f, "device {device} panicked: {message}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for DeviceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DeviceError::Failed { error, .. } => Some(error),
            DeviceError::Panicked { .. } => None,
        }
    }
}

impl Devices {
    /// `replicas * partitions` devices of this process.
    ///
    /// # Errors
    /// Where that is not 1 to [`MAX_DEVICES`].
    pub fn local(replicas: usize, partitions: usize) -> Result<Devices, RunError> {
        let devices = replicas.checked_mul(partitions).filter(|n| (1..=MAX_DEVICES).contains(n));
        match devices {
            Some(_) => Ok(Devices { replicas, partitions, timeout: None }),
            None => {
                Err(RunError::Devices(format!("expected 1 to {MAX_DEVICES} devices, found {replicas} x {partitions}")))
            }
        }
    }

    /// Lets nobody wait longer than this for the others. Without it a device waits as long as another one computes; what
    /// can never come is an error at once all the same.
    #[must_use]
    pub fn with_timeout(self, limit: Duration) -> Devices {
        Devices { timeout: Some(limit), ..self }
    }

    /// How many devices there are.
    pub fn count(&self) -> usize {
        self.replicas * self.partitions
    }

    /// New devices, to be lent to sessions or bindings by [`RunOptions::device`], each used by one thread. They know each
    /// other, and none that another call of this gave.
    pub fn connect(&self) -> Vec<Device> {
        let board = Board::new(self.replicas, self.partitions, self.timeout);
        (0..self.count()).map(|number| Device::new(Local::new(board.clone(), number))).collect()
    }

    /// Calls `body` on a thread for each device; the results by device. A device that fails or panics makes those fail that
    /// wait for it.
    ///
    /// # Errors
    /// Of the device that failed first.
    pub fn run_each<T: Send, E: Send + fmt::Display>(
        &self,
        body: impl Fn(&Device) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, DeviceError<E>> {
        let board = Board::new(self.replicas, self.partitions, self.timeout);
        let outcomes: Vec<Result<T, DeviceError<E>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.count())
                .map(|number| {
                    let (board, body) = (board.clone(), &body);
                    scope.spawn(move || {
                        let device = Device::new(Local::new(board, number));
                        let outcome = match catch_unwind(AssertUnwindSafe(|| body(&device))) {
                            Ok(Ok(value)) => return Ok(value),
                            Ok(Err(error)) => DeviceError::Failed { device: number, error },
                            Err(payload) => {
                                DeviceError::Panicked { device: number, message: panic_text(&*payload).to_owned() }
                            }
                        };
                        device.fail(&match &outcome {
                            DeviceError::Failed { error, .. } => error.to_string(),
                            DeviceError::Panicked { message, .. } => format!("it panicked: {message}"),
                        });
                        Err(outcome)
                    })
                })
                .collect();
            threads
                .into_iter()
                .enumerate()
                .map(|(device, t)| {
                    let lost = |p: Box<dyn std::any::Any + Send>| panic_text(&*p).to_owned();
                    t.join().unwrap_or_else(|p| Err(DeviceError::Panicked { device, message: lost(p) }))
                })
                .collect()
        });
        let culprit = board.culprit();
        let mut results = Vec::with_capacity(outcomes.len());
        let mut first = None;
        for (device, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(value) => results.push(value),
                Err(error) if first.is_none() || culprit == Some(device) => first = Some(error),
                Err(_) => {}
            }
        }
        first.map_or(Ok(results), Err)
    }

    /// Runs one program on all devices: arguments and results are by device.
    ///
    /// # Errors
    /// Where the program was compiled for other devices, and as [`Program::run`].
    pub fn run(
        &self,
        program: &Program,
        arguments: &[Vec<&ArrayLiteral>],
        options: &RunOptions,
    ) -> Result<Vec<Vec<ArrayLiteral>>, RunError> {
        self.run_programs(&vec![program; self.count()], arguments, options)
    }

    /// Runs a program for each device, which may be different ones that exchange values over channels.
    ///
    /// # Errors
    /// As [`Devices::run`].
    pub fn run_programs(
        &self,
        programs: &[&Program],
        arguments: &[Vec<&ArrayLiteral>],
        options: &RunOptions,
    ) -> Result<Vec<Vec<ArrayLiteral>>, RunError> {
        if programs.len() != self.count() || arguments.len() != self.count() {
            let (given, lists) = (programs.len(), arguments.len());
            let message = format!("{} devices, {given} programs and arguments for {lists}", self.count());
            return Err(RunError::Devices(message));
        }
        let outcome = self.run_each(|device| {
            let number = device.place().device;
            let (Some(program), Some(arguments)) = (programs.get(number), arguments.get(number)) else {
                return Err(RunError::Index(number));
            };
            program.run_with(arguments, &RunOptions { device: Some(device.clone()), ..options.clone() })
        });
        outcome.map_err(|error| match error {
            DeviceError::Failed { device, error } => RunError::Device { device, error: Box::new(error) },
            DeviceError::Panicked { .. } => RunError::Devices(error.to_string()),
        })
    }
}
