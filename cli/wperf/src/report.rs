//! Printers: plain data in, tables, JSON or CSV out.

pub mod csv;
pub mod output;
pub mod stat;
pub mod table;
pub mod uncore;
