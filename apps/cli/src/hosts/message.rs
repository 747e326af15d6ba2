//! What a launcher and its hosts say to each other, over the standard streams of ssh.
//!
//! ```text
//! to a host    a job, as one line of JSON; then lines: signal N
//!              the end of the stream: the launcher is gone
//! from a host  whatever its shell prints; then the greeting; then reports:
//!              out NODE LEN, err NODE LEN, and so many bytes
//!              ended NODE exit CODE, ended NODE signal N
//!              failed TEXT
//! ```

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::ExitStatus,
};

use pangea::{NodeId, launch::Ending};
use serde::{Deserialize, Serialize};

/// What a host says first. A number that grows with every change.
pub(super) const GREETING: &str = "pangea-host 1";

/// Bytes of the longest line.
const LINE_LEN_MAX: u64 = 4096;
/// Bytes of output in a report.
pub(super) const OUTPUT_LEN_MAX: usize = 64 << 10;

/// What a host is to start. It holds the key of the job.
#[derive(Deserialize, Serialize)]
pub(super) struct HostJob {
    /// The program and its arguments.
    pub(super) program: Vec<String>,
    /// Where it starts.
    pub(super) directory: PathBuf,
    /// The environment of each node of this host, by number.
    pub(super) nodes: BTreeMap<u16, BTreeMap<String, String>>,
}

/// What a host says of its nodes.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Report {
    /// A node has printed these bytes, to one of its streams.
    Output { node: NodeId, stream: Stream, bytes: Vec<u8> },
    /// A node has ended.
    Ended(Ending),
    /// The nodes cannot be started.
    Failed(String),
}

/// What a node prints to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stream {
    Out,
    Err,
}

impl Report {
    pub(super) fn write(&self, mut target: impl Write) -> io::Result<()> {
        match self {
            Self::Output { node, stream, bytes } => {
                let stream = if *stream == Stream::Out { "out" } else { "err" };
                writeln!(target, "{stream} {} {}", node.number(), bytes.len())?;
                target.write_all(bytes)?;
            }
            Self::Ended(Ending { node, status }) => match status.signal() {
                Some(signal) => writeln!(target, "ended {} signal {signal}", node.number())?,
                None => {
                    let code = status.code().unwrap_or(1);
                    writeln!(target, "ended {} exit {code}", node.number())?;
                }
            },
            Self::Failed(text) => writeln!(target, "failed {}", text.replace('\n', " "))?,
        }
        target.flush()
    }

    /// The next report; `None` at the end of the stream.
    pub(super) fn read(source: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(line) = read_line(source)? else { return Ok(None) };
        if let Some(text) = line.strip_prefix("failed ") {
            return Ok(Some(Self::Failed(text.to_owned())));
        }
        let words: Vec<&str> = line.split(' ').collect();
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("it said: {line}"));
        let number = |word: &str| word.parse::<i32>().map_err(|_| wrong());
        let node = |word: &str| word.parse().map(NodeId::new).map_err(|_| wrong());
        let ended = |word: &str, status: i32| {
            let status = ExitStatus::from_raw(status);
            Ok(Some(Self::Ended(Ending { node: node(word)?, status })))
        };
        match words[..] {
            [stream @ ("out" | "err"), word, len] => {
                let len = len.parse().ok().filter(|len| *len <= OUTPUT_LEN_MAX);
                let mut bytes = vec![0; len.ok_or_else(wrong)?];
                source.read_exact(&mut bytes)?;
                let stream = if stream == "out" { Stream::Out } else { Stream::Err };
                Ok(Some(Self::Output { node: node(word)?, stream, bytes }))
            }
            // As wait(2) gives them: a code in the second byte, or a signal in the first.
            ["ended", word, "exit", code] => ended(word, (number(code)? & 0xff) << 8),
            ["ended", word, "signal", signal] => ended(word, number(signal)? & 0x7f),
            _ => Err(wrong()),
        }
    }
}

/// A line without its end, which is not too long; `None` at the end of the stream.
pub(super) fn read_line(source: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    source.take(LINE_LEN_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&line).into_owned())),
        Some(_) if line.len() + 1 < usize::try_from(LINE_LEN_MAX).expect("a short line") => {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line without end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let node = NodeId::new(3);
        let ended = |status| Report::Ended(Ending { node, status: ExitStatus::from_raw(status) });
        let bytes = b"two\nlines \xff".to_vec();
        let reports = [
            Report::Output { node, stream: Stream::Out, bytes },
            Report::Output { node, stream: Stream::Err, bytes: Vec::new() },
            ended(0),
            ended(7 << 8),
            ended(9),
            Report::Failed("cannot start x: no".to_owned()),
        ];
        let mut sent = Vec::new();
        for report in &reports {
            report.write(&mut sent).unwrap();
        }
        let mut source = &sent[..];
        for report in reports {
            assert_eq!(Report::read(&mut source).unwrap(), Some(report));
        }
        assert_eq!(Report::read(&mut source).unwrap(), None);
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        for text in [
            "hello\n",
            "out 1\n",
            "out x 1\nx",
            "out 1 99999999\n",
            "out 1 5\nabc",
            "ended 1 exit\n",
            "ended 70000 exit 1\n",
            "ended 1 exit x\n",
            "ended 1",
            &"x".repeat(5000),
        ] {
            Report::read(&mut text.as_bytes()).unwrap_err();
        }
    }
}
