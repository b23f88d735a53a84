//! What the two programs share: the compiled network, and the pictures that it learns from.

use brolga_runtime::{RunOptions, Store, StoreError};

/// The compiled computations, as `build.rs` made them.
#[allow(missing_docs)]
pub mod network {
    include!(concat!(env!("OUT_DIR"), "/network.rs"));
}

/// Pictures in a batch.
pub const BATCH: usize = 32;
/// Rows and columns of a picture.
pub const SIDE: usize = 8;
/// How the stripes of a picture can run.
pub const CLASSES: [&str; 4] = ["across", "down", "rising", "falling"];

/// The network's tensors, without values yet.
///
/// # Errors
/// Where this processor lacks instructions that the network was compiled for, or memory is exhausted.
pub fn store() -> Result<Store, StoreError> {
    Store::new(&network::programs()?, &RunOptions::default())
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

    /// A batch in the store's inputs `pictures` and, where `labels` are wanted, `labels`; the class of each picture is written
    /// to `classes`.
    ///
    /// # Errors
    /// Where the store has no such inputs.
    pub fn batch(&mut self, store: &mut Store, labels: bool, classes: &mut [usize; BATCH]) -> Result<(), String> {
        for class in classes.iter_mut() {
            *class = self.below(CLASSES.len() as u32) as usize;
        }
        let pictures = store.bytes_mut("pictures").ok_or("the network takes no pictures")?;
        for (picture, &class) in pictures.chunks_exact_mut(4 * SIDE * SIDE).zip(&*classes) {
            self.draw(picture, class);
        }
        if labels {
            let rows = store.bytes_mut("labels").ok_or("the network takes no labels")?;
            for (row, &class) in rows.chunks_exact_mut(4 * CLASSES.len()).zip(&*classes) {
                write(row, (0..CLASSES.len()).map(|k| if k == class { 1.0 } else { 0.0 }));
            }
        }
        Ok(())
    }

    /// Stripes of width two, shifted by any amount, with noise.
    fn draw(&mut self, picture: &mut [u8], class: usize) {
        let shift = self.below(4) as usize;
        let pixels = (0..SIDE * SIDE).map(|i| {
            let (row, column) = (i / SIDE, i % SIDE);
            let along = [row, column, row + column, row + SIDE - column][class % CLASSES.len()];
            let noise = self.below(1000) as f32 / 2500.0 - 0.2;
            (if (along + shift) % 4 < 2 { 1.0 } else { -1.0 }) + noise
        });
        write(picture, pixels);
    }
}

/// Writes numbers into a tensor's buffer.
fn write(bytes: &mut [u8], numbers: impl Iterator<Item = f32>) {
    for (to, number) in bytes.chunks_exact_mut(4).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
}

/// The numbers of an output's buffer.
pub fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_le_bytes(*word))
}
