//! Where the output of a node goes.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    thread::{self, JoinHandle},
};

use pangea::NodeId;

use crate::failure::{Failure, Result};

/// Takes what a node prints to one of its streams.
pub(crate) enum Sink {
    /// As it is.
    Plain(Box<dyn Write + Send>),
    /// A line at a time, so that those of several nodes do not mix, with the node's number before
    /// it.
    Prefixed {
        /// The number, and the line as far as it has come.
        line: Vec<u8>,
        /// Bytes of the number.
        prefix: usize,
        target: Box<dyn Write + Send>,
    },
}

impl Sink {
    pub(crate) fn prefixed(node: NodeId, target: impl Write + Send + 'static) -> Self {
        let line = format!("[{}] ", node.number()).into_bytes();
        Self::Prefixed { prefix: line.len(), line, target: Box::new(target) }
    }

    /// A new file in `folder`: `node-N.` and `end`.
    pub(crate) fn file(folder: &Path, node: NodeId, end: &str) -> Result<File> {
        let path = folder.join(format!("node-{}.{end}", node.number()));
        File::create(&path).map_err(|error| cannot_write(&path, &error))
    }

    /// Takes some output; nothing is its end.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            // What was begun is a line, too.
            Self::Prefixed { line, prefix, .. } if bytes.is_empty() && line.len() > *prefix => {
                self.write(b"\n")
            }
            Self::Plain(target) => target.write_all(bytes).and_then(|()| target.flush()),
            Self::Prefixed { line, prefix, target } => {
                for part in bytes.split_inclusive(|&byte| byte == b'\n') {
                    line.extend(part);
                    if part.ends_with(b"\n") {
                        let written = target.write_all(line);
                        line.truncate(*prefix);
                        written?;
                    }
                }
                target.flush()
            }
        }
    }
}

pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot write to {}: {error}", path.display()))
}

/// A thread that copies, and tells what it could not write.
pub(crate) type Copy = JoinHandle<io::Result<()>>;

/// Copies all of `source`, in parts of at most `len` bytes, beside; an empty part is the end.
pub(crate) fn copy(
    mut source: impl Read + Send + 'static,
    len: usize,
    mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
) -> Result<Copy> {
    let copy = move || {
        let mut buffer = vec![0; len];
        let mut written = Ok(());
        loop {
            let count = source.read(&mut buffer)?;
            // What cannot be written is read all the same: the node is not to wait.
            if written.is_ok() {
                written = write(&buffer[..count]);
            }
            if count == 0 {
                return written;
            }
        }
    };
    let thread = thread::Builder::new().spawn(copy);
    thread.map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};

    use super::*;

    /// Passes on each write.
    struct Writes(Sender<String>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_whole_with_the_number_before_them() {
        let (sender, writes) = mpsc::channel();
        let mut sink = Sink::prefixed(NodeId::new(7), Writes(sender));
        for part in ["one\ntw", "o", "\n\nthr", "ee", ""] {
            sink.write(part.as_bytes()).unwrap();
        }
        drop(sink);
        let writes: Vec<String> = writes.iter().collect();
        assert_eq!(writes, ["[7] one\n", "[7] two\n", "[7] \n", "[7] three\n"]);
    }
}
