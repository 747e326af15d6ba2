//! Deciding when the nodes of a job are to end, wherever they run, and which of them failed first.

use std::{
    fmt,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pangea_rdma::{NodeId, bootstrap::Lifelines};

use super::Place;
use crate::{Error, Result};

/// How long the other nodes have to find out themselves that one has failed, and to say so.
const GRACE: Duration = Duration::from_millis(2000);
/// How long nodes have to end after they were told to by SIGTERM.
pub const TERM_GRACE: Duration = Duration::from_millis(800);
/// A second signal within this time kills.
const INSIST: Duration = Duration::from_secs(5);
/// How long nodes may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// How a node ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ending {
    /// Which node.
    pub node: NodeId,
    /// Its exit status.
    pub status: ExitStatus,
}

impl Ending {
    /// The code with which a launcher should exit: the node's, or 128 and the number of the signal
    /// that ended it.
    pub fn code(&self) -> u8 {
        let code = self.status.code().or_else(|| Some(128 + self.status.signal()?));
        u8::try_from(code.unwrap_or(1)).unwrap_or(1)
    }
}

/// Something that happens to a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The process of a node has ended.
    Ended(Ending),
    /// A signal is to be passed on to all nodes.
    Signal(i32),
}

/// The processes of a job, wherever they run. Who runs them sends an [`Event::Ended`] for each.
pub trait Processes: fmt::Debug {
    /// Sends `signal` to every node that has not ended.
    fn signal(&self, signal: i32);
}

/// Watches over a job: passes signals on, ends all nodes when one fails, finds the first cause.
#[derive(Debug)]
pub struct Supervision {
    // By node.
    is_running: Vec<bool>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    // When a signal was last passed on.
    last_signal: Option<Instant>,
    // Set when there can be no meeting any more.
    is_off: Arc<AtomicBool>,
    meeting: Option<JoinHandle<pangea_rdma::Result<Option<Lifelines>>>>,
}

impl Supervision {
    /// Watches over the nodes that meet at `place`, from before they are started.
    ///
    /// # Errors
    ///
    /// [`Error::Os`] where no thread can be started.
    pub fn new(place: Place) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let is_running = vec![true; usize::from(place.nodes())];
        let is_off = Arc::new(AtomicBool::new(false));
        let meet = {
            let is_off = is_off.clone();
            move || {
                let deadline = Instant::now() + JOIN_TIMEOUT;
                // Acquire: pairs with the Release in `call_off`.
                place.serve(deadline, &|| is_off.load(Ordering::Acquire))
            }
        };
        let meeting = thread::Builder::new().name("pangea rendezvous".to_owned()).spawn(meet);
        let meeting = Some(meeting.map_err(Error::os("starting a thread"))?);
        Ok(Self { is_running, events, sender, last_signal: None, is_off, meeting })
    }

    /// To say what happens.
    pub fn events(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Waits until all nodes have ended, and returns how the first failed, if one did. One that
    /// failed because it had lost another is not the first.
    ///
    /// When one fails, the others have a moment to notice and to say so; then they are told to end,
    /// and then killed. All are gone within 3 seconds.
    ///
    /// # Errors
    ///
    /// Where the nodes could not be brought together, which is why they failed.
    pub fn wait(mut self, processes: &dyn Processes) -> Result<Option<Ending>> {
        let mut failed = Vec::new();
        while self.is_running() && failed.is_empty() {
            // An event comes for each node that runs; this supervision holds a sender itself.
            let Ok(event) = self.events.recv() else { break };
            self.take_in(event, processes, &mut failed);
        }
        self.outwait(GRACE, processes, &mut failed);
        if self.is_running() {
            processes.signal(libc::SIGTERM);
            // What fails from now on was made to.
            self.outwait(TERM_GRACE, processes, &mut Vec::new());
            processes.signal(libc::SIGKILL);
        }
        self.first_cause(&failed)
    }

    fn is_running(&self) -> bool {
        self.is_running.contains(&true)
    }

    /// Waits for the nodes that are left, for at most `time`.
    fn outwait(&mut self, time: Duration, processes: &dyn Processes, failed: &mut Vec<Ending>) {
        let deadline = Instant::now() + time;
        while self.is_running() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => self.take_in(event, processes, failed),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take_in(&mut self, event: Event, processes: &dyn Processes, failed: &mut Vec<Ending>) {
        match event {
            Event::Signal(signal) => {
                let now = Instant::now();
                let again = self.last_signal.replace(now).is_some_and(|last| now - last < INSIST);
                // Who asks twice means it, whatever the nodes do with a signal.
                processes.signal(if again { libc::SIGKILL } else { signal });
            }
            Event::Ended(ending) => {
                // A node that ends without having joined leaves the others waiting for it in vain.
                self.call_off();
                let is_running = self.is_running.get_mut(ending.node.index());
                let was_running = is_running.is_some_and(std::mem::take);
                if was_running && !ending.status.success() {
                    failed.push(ending);
                }
            }
        }
    }

    /// The first of `failed` that had not lost another of them.
    fn first_cause(&mut self, failed: &[Ending]) -> Result<Option<Ending>> {
        let Some(&first) = failed.first() else { return Ok(None) };
        let Some(Ok(met)) = self.meeting.take().map(JoinHandle::join) else {
            return Ok(Some(first));
        };
        let Some(lifelines) = met? else { return Ok(Some(first)) };
        let has_failed = |node: &NodeId| failed.iter().any(|ending| ending.node == *node);
        let mut causes = failed.iter();
        let cause =
            causes.find(|ending| !lifelines.take_losses(ending.node).iter().any(has_failed));
        Ok(Some(cause.copied().unwrap_or(first)))
    }

    fn call_off(&self) {
        // Release: pairs with the Acquire in `new`.
        self.is_off.store(true, Ordering::Release);
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        self.call_off();
        if let Some(meeting) = self.meeting.take() {
            // It looks every few milliseconds whether it is off.
            _ = meeting.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Nodes that only remember what they were sent.
    #[derive(Debug, Default)]
    struct Remembered(Mutex<Vec<i32>>);

    impl Processes for Remembered {
        fn signal(&self, signal: i32) {
            self.0.lock().unwrap().push(signal);
        }
    }

    /// What a supervision of two nodes finds after `events`, and what it has sent them.
    fn supervise(events: &[Event]) -> (Option<Ending>, Vec<i32>) {
        let supervision = Supervision::new(Place::local(2).unwrap()).unwrap();
        for event in events {
            supervision.events().send(*event).unwrap();
        }
        let nodes = Remembered::default();
        let failed = supervision.wait(&nodes).unwrap();
        (failed, nodes.0.into_inner().unwrap())
    }

    /// How `node` ends, by a status as wait(2) gives it.
    fn ending(node: u16, status: i32) -> Ending {
        Ending { node: NodeId::new(node), status: ExitStatus::from_raw(status) }
    }

    #[test]
    fn nodes_that_end_well_are_sent_nothing() {
        let ended = [0, 1].map(|node| Event::Ended(ending(node, 0)));
        assert_eq!(supervise(&ended), (None, vec![]));
    }

    #[test]
    fn a_failure_ends_who_does_not_end() {
        let failed = ending(1, 7 << 8);
        let sent = vec![libc::SIGTERM, libc::SIGKILL];
        assert_eq!(supervise(&[Event::Ended(failed)]), (Some(failed), sent));
        assert_eq!((failed.code(), ending(0, 9).code()), (7, 128 + 9));
    }

    #[test]
    fn a_node_ends_once_and_one_that_is_none_does_not_count() {
        let endings = [ending(0, 0), ending(0, 9), ending(5, 9), ending(1, 0)];
        assert_eq!(supervise(&endings.map(Event::Ended)), (None, vec![]));
    }

    #[test]
    fn signals_are_passed_on_and_a_second_one_kills() {
        let ended = [0, 1].map(|node| Event::Ended(ending(node, libc::SIGKILL)));
        let signals = [libc::SIGINT, libc::SIGINT].map(Event::Signal);
        let (failed, sent) = supervise(&[signals, ended].concat());
        assert_eq!(sent, [libc::SIGINT, libc::SIGKILL]);
        assert_eq!(failed.unwrap().node, NodeId::new(0));
    }
}
