//! Several devices: programs that run at the same time and exchange values.
//!
//! Problem: collectives have a meaning only among replicas and partitions that run the same program, each on a thread or in
//! a process of its own; a member that fails, or that never comes, must not leave the others waiting, nor a buffer in use
//! that its owner has freed. Invariant: a device passes a collective when every member of its group has brought the same
//! operation on the same shapes, and no data moves before; results do not depend on who came when. Algorithm: a [`Device`]
//! reaches the others by a [`Link`]: threads of this process by a board ([`local`](mod@local)), processes by MPI (feature
//! `mpi`). What a collective means for buffers is cut into pieces ([`work`](mod@work)) that any member may do.
//!
//! ```
//! use brolga_runtime::devices::{Collective, Devices, Operation, Reduction};
//! use brolga_runtime::{ArrayShape, ElementType};
//!
//! let shape = ArrayShape::new(ElementType::S32, [2]);
//! let sum = Collective {
//!     operation: Operation::AllReduce,
//!     reduction: Some(Reduction::Add),
//!     dimension: 0,
//!     channel: 0,
//!     line: 0,
//!     groups: vec![vec![0, 1]],
//! };
//! let results = Devices::local(2, 1)?.run_each(|device| {
//!     let own = [device.place().device as i32, 10].map(i32::to_ne_bytes).concat();
//!     let mut all = [0; 8];
//!     device.exchange(&sum, &[(&shape, &own)], &mut [(&shape, &mut all)])?;
//!     Ok::<_, brolga_runtime::services::Failure>(all)
//! })?;
//! let sums = [1i32, 20].map(i32::to_ne_bytes);
//! assert_eq!(results, [sums.as_flattened(), sums.as_flattened()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collective;
mod device;
mod link;
mod local;
mod meeting;
#[cfg(feature = "mpi")]
mod mpi;
mod reduce;
mod run;
#[cfg(test)]
mod tests;
mod transfers;
mod work;

pub use collective::{Collective, Operation, Reduction};
pub(crate) use device::Ask;
pub use device::Device;
pub use link::{Exchange, Link, Message, Route};
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use reduce::supports;
pub use run::{DeviceError, Devices};
pub use work::{Part, Span};

/// How many devices may run in one process: each is a thread.
pub const MAX_DEVICES: usize = 256;

/// Which device of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its number, `replica * partitions + partition`.
    pub device: usize,
    /// How many replicas there are.
    pub replicas: usize,
    /// How many partitions each replica has.
    pub partitions: usize,
}

impl Place {
    /// The number of the replica.
    pub fn replica(&self) -> usize {
        self.device / self.partitions.max(1)
    }

    /// The number of the partition within the replica.
    pub fn partition(&self) -> usize {
        self.device % self.partitions.max(1)
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.replicas * self.partitions
    }
}
