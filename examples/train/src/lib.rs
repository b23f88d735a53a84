//! What the two programs share: the compiled network, and the pictures that it learns from.

use brolga_runtime::store::ComputationId;
use brolga_runtime::{NativeType, RunOptions, Store, StoreError};

/// The compiled computations, as `build.rs` made them.
#[allow(missing_docs)]
pub mod network {
    include!(concat!(env!("OUT_DIR"), "/network.rs"));
}

/// The same computations in `f64`.
#[allow(missing_docs)]
pub mod network_f64 {
    include!(concat!(env!("OUT_DIR"), "/network_f64.rs"));
}

/// Pictures in a batch.
pub const BATCH: usize = 32;
/// Rows and columns of a picture.
pub const SIDE: usize = 8;
/// How the stripes of a picture can run.
pub const CLASSES: [&str; 4] = ["across", "down", "rising", "falling"];

/// The number types that the network is compiled for.
pub trait Number: NativeType + From<f32> {
    /// The network's tensors in this type, without values yet.
    ///
    /// # Errors
    /// Where this processor lacks instructions that the network was compiled for, or memory is exhausted.
    fn store() -> Result<Store, StoreError>;
}

impl Number for f32 {
    fn store() -> Result<Store, StoreError> {
        Store::new(&network::programs()?, &RunOptions::default())
    }
}

impl Number for f64 {
    fn store() -> Result<Store, StoreError> {
        Store::new(&network_f64::programs()?, &RunOptions::default())
    }
}

/// Makes pictures of stripes, the same on every machine.
pub struct Pictures(u32);

impl Pictures {
    /// Another `seed` gives other pictures.
    pub fn new(seed: u32) -> Pictures {
        Pictures(seed)
    }

    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % n
    }

    /// A batch in the inputs `pictures` and, where `labels` are wanted, `labels` of a store of numbers `T`; the class of each
    /// picture is written to `classes`.
    ///
    /// # Errors
    /// Where the store has no such inputs.
    pub fn batch<T: Number>(
        &mut self,
        store: &mut Store,
        labels: bool,
        classes: &mut [usize; BATCH],
    ) -> Result<(), String> {
        for class in classes.iter_mut() {
            *class = self.below(CLASSES.len() as u32) as usize;
        }
        let pictures = numbers_mut::<T>(store, "pictures")?;
        for (picture, &class) in pictures.chunks_exact_mut(SIDE * SIDE).zip(&*classes) {
            self.draw(picture, class);
        }
        if labels {
            let rows = numbers_mut::<T>(store, "labels")?;
            for (row, &class) in rows.chunks_exact_mut(CLASSES.len()).zip(&*classes) {
                row.fill(T::from(0.0));
                row[class] = T::from(1.0);
            }
        }
        Ok(())
    }

    /// Stripes of width two, shifted by any amount, with noise.
    fn draw<T: Number>(&mut self, picture: &mut [T], class: usize) {
        let shift = self.below(4) as usize;
        for (i, pixel) in picture.iter_mut().enumerate() {
            let (row, column) = (i / SIDE, i % SIDE);
            let along = [row, column, row + column, row + SIDE - column][class % CLASSES.len()];
            let noise = self.below(1000) as f32 / 2500.0 - 0.2;
            *pixel = T::from((if (along + shift) % 4 < 2 { 1.0 } else { -1.0 }) + noise);
        }
    }
}

/// The numbers of an input of the store.
fn numbers_mut<'s, T: Number>(store: &'s mut Store, input: &str) -> Result<&'s mut [T], String> {
    let bytes = store.bytes_mut(input).ok_or_else(|| format!("the network takes no {input}"))?;
    bytemuck::try_cast_slice_mut(bytes).map_err(|e| format!("{input}: {e}"))
}

/// The numbers of an output of the computation `id`.
///
/// # Errors
/// Where the computation has no such output, or it is not of numbers `T`.
pub fn numbers<T: Number>(store: &Store, id: ComputationId, output: usize) -> Result<&[T], String> {
    let bytes = store.output_bytes(id, output).ok_or_else(|| format!("there is no output {output}"))?;
    bytemuck::try_cast_slice(bytes).map_err(|e| format!("output {output}: {e}"))
}
