//! The command line, tried as a user would, in one test program.

mod cli;
mod debug;
mod freeze;
mod front;
mod limits;
mod sizes;
mod start;
