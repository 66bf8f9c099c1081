//! Reading, analysing, mapping and running driver images.

#[path = "image/analyse.rs"]
mod analyse;
#[path = "image/hostile.rs"]
mod hostile;
#[path = "image/map.rs"]
mod map;
#[path = "image/parse.rs"]
mod parse;
#[path = "image/run.rs"]
mod run;
#[path = "image/support.rs"]
mod support;
#[path = "image/symbols.rs"]
mod symbols;
