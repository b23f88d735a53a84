//! What no single crate can test: the corpus, the comparison of numbers, random programs, and running the program as a
//! user would.

pub mod compare;
pub mod corpus;
pub mod damage;
pub mod devices;
pub mod emulation;
pub mod growth;
pub mod kernels;
pub mod memory;
pub mod operations;
pub mod process;
pub mod products;
pub mod random_graph;
pub mod training;
pub mod ways;
pub mod widths;
