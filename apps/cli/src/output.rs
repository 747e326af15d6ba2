//! Writing to the user: at once, and without a panic where nobody reads any more.

use std::io::{self, Write};

use pangea_llm::{Error, Result};

/// Writes `text`, so that it appears as it comes.
pub(crate) fn write(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Error::Output)
}
