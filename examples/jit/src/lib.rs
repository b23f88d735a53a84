//! Builds a graph with the builder, compiles it and runs it in the same process.

use brolga_compiler::builder::Builder;
use brolga_compiler::hlo::Module;
use brolga_compiler::{CompileOptions, compile};
use brolga_runtime::{ArrayLiteral, ElementType, Program, Shape};

/// `a * x + y` over `n` elements.
///
/// # Errors
/// Where the graph is wrong: each call of the builder checks shapes, and `build` returns the first error.
pub fn saxpy(n: i64) -> brolga_compiler::Result<Module> {
    let b = Builder::new("saxpy");
    let a = b.parameter(0, Shape::scalar(ElementType::F32), "a");
    let x = b.parameter(1, Shape::array(ElementType::F32, [n]), "x");
    let y = b.parameter(2, Shape::array(ElementType::F32, [n]), "y");
    b.add(b.mul(a, x), y);
    b.build()
}

/// Compiles a module for this machine and loads the object's bytes.
///
/// # Errors
/// Where the module has no compiled form, or the object does not load.
pub fn jit(module: &Module) -> Result<Program, Box<dyn std::error::Error + Send + Sync>> {
    let artifact = compile(module, &CompileOptions::native())?;
    Ok(Program::from_object(&artifact.object)?)
}

/// Runs [`saxpy`] on two vectors.
///
/// # Errors
/// As [`jit`]; and where `x` and `y` have different lengths.
pub fn run(a: f32, x: &[f32], y: &[f32]) -> Result<Vec<f32>, Box<dyn std::error::Error + Send + Sync>> {
    let n = x.len() as i64;
    let program = jit(&saxpy(n)?)?;
    let vector = |v: &[f32]| ArrayLiteral::from_elements(&[v.len() as i64], v);
    let results = program.run(&[&ArrayLiteral::scalar(a), &vector(x), &vector(y)])?;
    Ok(results[0].as_slice::<f32>().to_vec())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_graph_built_in_rust_runs() {
        let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let y = vec![0.5; 1000];
        let out = super::run(2.0, &x, &y).expect("saxpy compiles and runs");
        assert!(out.iter().enumerate().all(|(i, &v)| v == 2.0 * i as f32 + 0.5));
    }
}
