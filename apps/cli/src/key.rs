//! `pangea key`: a key for a cluster whose nodes are started by hand, or by another launcher.

use std::process::ExitCode;

use pangea::launch;

use crate::{args::Key, failure::Result};

pub(crate) fn run(args: &Key) -> Result {
    launch::Key::random()
        .and_then(|key| key.write_file(&args.file))
        .map_err(pangea::Error::from)?;
    let path = args.file.display();
    eprintln!("pangea: {path} is the key; copy it to every host, and set PANGEA_KEY_FILE there");
    Ok(ExitCode::SUCCESS)
}
