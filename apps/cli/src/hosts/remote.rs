//! A host of a job, at the other end of ssh.

use std::{
    env,
    ffi::OsString,
    io::{BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pangea::{
    NodeId,
    launch::{Ending, Event, Processes, TERM_GRACE},
};

use super::{
    message::{GREETING, HostJob, Report, Stream, read_line},
    outputs::Outputs,
};
use crate::failure::{Failure, Result};

/// The program that is run in the place of ssh.
const SSH: &str = "PANGEA_SSH";
/// A host must answer by itself: within 10 seconds, without a password; one that does not answer
/// any more is lost after as many.
const OPTIONS: [&str; 5] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=3",
    "-oServerAliveCountMax=3",
];
/// How long ssh may take to end after its nodes should have.
const PARTING: Duration = Duration::from_millis(500);
/// How often it is looked after then.
const TICK: Duration = Duration::from_millis(5);

/// A host with nodes; they end when it is dropped.
#[derive(Debug)]
pub(super) struct Remote {
    name: String,
    child: Child,
    /// `None` once there is nothing more to say.
    orders: Mutex<Option<ChildStdin>>,
    nodes: Vec<NodeId>,
    state: Arc<Mutex<State>>,
    reader: Option<JoinHandle<()>>,
}

/// What is known of a host.
#[derive(Debug, Default)]
struct State {
    /// Nodes that have ended.
    ended: Vec<NodeId>,
    has_greeted: bool,
    /// The last words of ssh.
    words: String,
    /// Why the host itself failed, rather than one of its nodes.
    trouble: Option<Trouble>,
}

/// Why a host failed.
#[derive(Clone, Debug)]
enum Trouble {
    /// The connection ended.
    Gone,
    /// It did not start the nodes, for this reason.
    Refused(String),
}

impl Remote {
    /// Starts the nodes of `job` on the host `name`, by `pangea`, its path there. Their ends are
    /// told to `events`.
    pub(super) fn start(
        name: &str,
        pangea: &Path,
        job: &HostJob,
        outputs: Outputs,
        events: Sender<Event>,
    ) -> Result<Self> {
        let mut command = command(name, pangea)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is passed on as a signal to the nodes; ssh is to stay until they have ended.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| {
            Failure::usage(format!("cannot start {}: {error}", command.get_program().display()))
        })?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let nodes: Vec<NodeId> = job.nodes.keys().map(|&node| NodeId::new(node)).collect();
        let state = Arc::new(Mutex::new(State::default()));
        let words = stderr.map(|stderr| repeat(name.to_owned(), stderr, state.clone()));
        let mut reader = Reader { nodes: nodes.clone(), state: state.clone(), outputs, events };
        let reader = thread::spawn(move || {
            stdout.into_iter().for_each(|stdout| reader.run(stdout));
            // The last words are there before they are asked for.
            words.into_iter().for_each(|words| _ = words.join());
            reader.finish();
        });
        let orders = Mutex::new(stdin);
        let (name, reader) = (name.to_owned(), Some(reader));
        let remote = Self { name, child, orders, nodes, state, reader };
        let line = serde_json::to_string(job).map_err(|error| Failure::runtime(&error))?;
        // A host that cannot be told is one whose connection has ended, which the reader notices.
        remote.tell(&line);
        Ok(remote)
    }

    fn tell(&self, line: &str) {
        let mut orders = lock(&self.orders);
        let told = orders.as_mut().map(|orders| writeln!(orders, "{line}"));
        if let Some(Err(_)) = told {
            *orders = None;
        }
    }

    /// Whether all of its nodes have ended.
    fn has_ended(&self) -> bool {
        let state = lock(&self.state);
        self.nodes.iter().all(|node| state.ended.contains(node))
    }

    /// Waits until all output has come. A host that has not said that its nodes ended, though they
    /// were killed, is given up.
    pub(super) fn finish(&mut self) {
        if !self.has_ended() {
            self.part(PARTING);
        }
        *lock(&self.orders) = None;
        if let Some(reader) = self.reader.take() {
            _ = reader.join();
        }
        _ = self.child.wait();
    }

    /// Lets the host know that nothing more will come, by which it ends its nodes, and then ends
    /// ssh.
    fn part(&mut self, patience: Duration) {
        *lock(&self.orders) = None;
        let deadline = Instant::now() + patience;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(TICK);
        }
        // One that has ended was waited for, and is no stranger.
        _ = self.child.kill();
    }

    /// Why the host itself failed, if `node` is one of its nodes and that is why it ended.
    pub(super) fn trouble(&self, node: NodeId) -> Option<Failure> {
        let state = lock(&self.state);
        let name = &self.name;
        let trouble = state.trouble.as_ref().filter(|_| self.nodes.contains(&node))?;
        Some(match trouble {
            Trouble::Refused(reason) => Failure::usage(format!("host {name}: {reason}")),
            Trouble::Gone if state.has_greeted => {
                Failure::failed(format!("host {name}: the connection ended{}", state.ending()))
            }
            Trouble::Gone => {
                let hint = "it must be reached by ssh without a password, and have pangea at the \
                            path that it has here, or at --remote-pangea PATH";
                Failure::failed(format!("host {name}: cannot be started{}; {hint}", state.ending()))
            }
        })
    }
}

impl State {
    fn ending(&self) -> String {
        if self.words.is_empty() { String::new() } else { format!(": {}", self.words) }
    }
}

impl Processes for Remote {
    fn signal(&self, signal: i32) {
        self.tell(&format!("signal {signal}"));
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.part(TERM_GRACE + PARTING);
        _ = self.child.wait();
    }
}

/// Whether the host `name` is this one, so that it needs no ssh.
pub(super) fn is_here(name: &str) -> bool {
    ["localhost", "127.0.0.1", "::1"].contains(&name)
}

/// The command that runs `pangea run-host` on the host `name`.
fn command(name: &str, pangea: &Path) -> Result<Command> {
    if is_here(name) {
        let mut command = Command::new(pangea);
        command.arg("run-host");
        return Ok(command);
    }
    let path = pangea.to_str().filter(|path| !path.contains('\''));
    let path = path.ok_or_else(|| {
        Failure::usage(format!("--remote-pangea: ssh cannot pass {}", pangea.display()))
    })?;
    let ssh = env::var_os(SSH).filter(|ssh| !ssh.is_empty()).unwrap_or(OsString::from("ssh"));
    let mut command = Command::new(ssh);
    // A shell there takes the words apart.
    command.args(OPTIONS).args([name, "--", &format!("'{path}'"), "run-host"]);
    Ok(command)
}

/// Prints what ssh says, with the name of the host before it, and keeps its last line.
fn repeat(
    name: String,
    stderr: impl Read + Send + 'static,
    state: Arc<Mutex<State>>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut stderr = BufReader::new(stderr);
        while let Ok(Some(line)) = read_line(&mut stderr) {
            eprintln!("[{name}] {line}");
            lock(&state).words = line.trim_end().to_owned();
        }
    })
}

/// Takes in what a host reports.
struct Reader {
    nodes: Vec<NodeId>,
    state: Arc<Mutex<State>>,
    outputs: Outputs,
    events: Sender<Event>,
}

impl Reader {
    fn run(&mut self, stdout: ChildStdout) {
        let mut reports = BufReader::new(stdout);
        // What the shell of the host prints comes before.
        while !lock(&self.state).has_greeted {
            let Ok(Some(line)) = read_line(&mut reports) else { return };
            lock(&self.state).has_greeted = line == GREETING;
        }
        loop {
            match Report::read(&mut reports) {
                Ok(Some(Report::Output { node, stream, bytes })) => {
                    self.outputs.write(node, stream == Stream::Err, &bytes);
                }
                Ok(Some(Report::Ended(ending))) => self.end(ending),
                Ok(Some(Report::Failed(reason))) => {
                    lock(&self.state).trouble = Some(Trouble::Refused(reason));
                }
                Ok(None) => return,
                Err(error) => {
                    lock(&self.state).trouble = Some(Trouble::Refused(error.to_string()));
                    return;
                }
            }
        }
    }

    fn end(&self, ending: Ending) {
        lock(&self.state).ended.push(ending.node);
        // Who does not listen any more has ended the job.
        _ = self.events.send(Event::Ended(ending));
    }

    /// The host says nothing more: nodes that have not ended are lost.
    fn finish(&self) {
        let mut state = lock(&self.state);
        let lost: Vec<NodeId> =
            self.nodes.iter().copied().filter(|node| !state.ended.contains(node)).collect();
        if !lost.is_empty() {
            state.trouble.get_or_insert(Trouble::Gone);
        }
        drop(state);
        for node in lost {
            self.end(Ending { node, status: ExitStatus::from_raw(255 << 8) });
        }
    }
}

/// What is behind the lock is whole whatever panicked beside it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
