//! What a job prints, with the time of each line.

use std::{
    io::{BufRead, BufReader, Read},
    process::Child,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

/// What a node has printed, or its launcher.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Instant,
    /// `None` for the launcher.
    pub(crate) node: Option<u16>,
    pub(crate) text: String,
}

/// What a job prints, as it comes and as it has come.
#[derive(Debug)]
pub(crate) struct Trace {
    coming: Receiver<Line>,
    pub(crate) lines: Vec<Line>,
}

impl Trace {
    /// Follows both streams of `job`.
    pub(crate) fn of(job: &mut Child) -> Self {
        let (sender, coming) = mpsc::channel();
        follow(job.stdout.take(), sender.clone());
        follow(job.stderr.take(), sender);
        Self { coming, lines: Vec::new() }
    }

    /// Reads on until `count` lines are there that `is_wanted`.
    pub(crate) fn await_lines(
        &mut self,
        count: usize,
        patience: Duration,
        is_wanted: impl Fn(&Line) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        while self.lines.iter().filter(|line| is_wanted(line)).count() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.coming.recv_timeout(left) {
                Ok(line) => self.lines.push(line),
                Err(RecvTimeoutError::Timeout) => return Err(self.missing("in time")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.missing("to its end")),
            }
        }
        Ok(())
    }

    /// Reads on to the end.
    pub(crate) fn finish(&mut self, patience: Duration) -> Result<(), String> {
        match self.await_lines(usize::MAX, patience, |_| true) {
            Err(why) if why.starts_with("to its end") => Ok(()),
            other => other,
        }
    }

    fn missing(&self, when: &str) -> String {
        let lines: Vec<_> = self.lines.iter().map(|line| (line.node, &line.text)).collect();
        format!("{when}, the job says no more than {lines:?}")
    }
}

/// Reads lines such as `[2] error: ...`.
fn follow(stream: Option<impl Read + Send + 'static>, lines: Sender<Line>) {
    let Some(stream) = stream else { return };
    thread::spawn(move || {
        for text in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text).into_owned();
            let parts = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
            let node = parts.and_then(|(node, _)| node.parse().ok());
            let text = parts.filter(|_| node.is_some()).map_or(&*text, |(_, rest)| rest);
            let line = Line { at: Instant::now(), node, text: text.to_owned() };
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}
