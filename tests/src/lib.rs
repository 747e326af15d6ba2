//! What tests of whole jobs are made of: ways by which nodes reach each other, and hosts that are
//! none.

mod networks;
mod path;
mod sharing;

pub use networks::{Family, Networks};
pub use path::{Cables, Path, Started};
pub use sharing::share;
