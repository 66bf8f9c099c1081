//! Printers: plain data in, tables, JSON or CSV out.

pub mod csv;
pub mod output;
pub mod progress;
pub mod sample;
pub mod stat;
pub mod table;
pub mod uncore;
