//! The interface of C, in one test program.

mod calls;
mod examples;
mod header;
