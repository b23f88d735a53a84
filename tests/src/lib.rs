//! What no single crate can test: the corpus, the comparison of numbers, and running the program as a user would.

pub mod compare;
pub mod corpus;
pub mod process;
