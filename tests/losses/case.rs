//! One node lost in one way, while the others do one thing.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use pangea_tests::{Family, Networks};

use crate::trace::{Line, Trace};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the nodes are left to what they do before one is lost.
const SETTLE: Duration = Duration::from_millis(300);
/// A text to read; and what the files begin with that the nodes write.
const TEXT: &str = "text";
/// How long a model is loaded, at least.
const LOADING: Duration = Duration::from_secs(1);
/// Nodes of a job.
const NODES: u16 = 4;

/// Where the nodes are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Site {
    /// On one host, and share memory.
    Shm,
    /// On one host, over TCP.
    Loopback,
    /// Two each on two hosts.
    TwoHosts,
}

/// How a node is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    Killed,
    Stopped,
    /// The cable between the hosts is pulled.
    CutOff,
}

/// What the others do meanwhile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum During {
    Barrier,
    Gets,
    Atomics,
    /// They run a model that lies on all of them.
    Model,
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) site: Site,
    pub(crate) fault: Fault,
    pub(crate) during: During,
    pub(crate) victim: u16,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// From the fault to the last of the others' errors.
    pub(crate) noticed: Duration,
    /// The most that one of them has spent after that, in per cent of a core.
    pub(crate) spent: Option<f64>,
    /// From the fault to the end of all.
    pub(crate) ended: Duration,
}

impl Site {
    pub(crate) const ALL: [Self; 3] = [Self::Shm, Self::Loopback, Self::TwoHosts];

    pub(crate) fn allows(self, fault: Fault) -> bool {
        fault != Fault::CutOff || self == Self::TwoHosts
    }
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::Stopped, Self::CutOff];
}

impl During {
    pub(crate) const ALL: [Self; 4] = [Self::Barrier, Self::Gets, Self::Atomics, Self::Model];

    /// What each node runs.
    fn program(self, fault: Fault) -> Vec<String> {
        let scenario = match self {
            Self::Barrier => "lose_in_barrier",
            Self::Gets => "lose_in_gets",
            Self::Atomics => "lose_in_atomics",
            Self::Model => return vec!["sh".to_owned(), "-c".to_owned(), model_script(fault)],
        };
        vec![built("test-node").display().to_string(), scenario.to_owned()]
    }
}

/// Writes a text; where silence must be noticed first, reads one that takes longer than any can be
/// written.
fn model_script(fault: Fault) -> String {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/llm/models/austen-q8_0.gguf");
    let command = if fault == Fault::Killed {
        format!("complete {model} -p It --max-tokens 500 --ignore-eos")
    } else {
        format!("perplexity {model} \"$TMPDIR/{TEXT}\"")
    };
    let pangea = built("pangea");
    let output = format!("\"$TMPDIR/{TEXT}-$PANGEA_NODE\"");
    format!("echo node $$; exec {} llm {command} >{output}", pangea.display())
}

impl Case {
    /// Loses the node; `None` where there can be no such hosts.
    pub(crate) fn run(&self) -> Result<Option<Found>, String> {
        let networks = match (self.site, Networks::new(Family::V4)) {
            (Site::TwoHosts, Err(why)) => {
                eprintln!("not tried: {self}: {why}");
                return Ok(None);
            }
            (Site::TwoHosts, Ok(networks)) => Some(networks),
            _ => None,
        };
        let folder = env::temp_dir().join(format!("losses-{}", process::id()));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let found = self.run_in(&folder, networks.as_ref());
        let left = left_in(&folder);
        // The folder is this case's own.
        _ = fs::remove_dir_all(&folder);
        if left.is_empty() { found.map(Some) } else { Err(format!("files are left: {left:?}")) }
    }

    fn run_in(&self, folder: &Path, networks: Option<&Networks>) -> Result<Found, String> {
        let mut job = self.start(folder, networks)?;
        let mut trace = Trace::of(&mut job);
        let nodes = usize::from(NODES);
        trace.await_lines(nodes, PATIENCE, |line| process_of(line).is_some())?;
        if self.during == During::Model {
            self.await_model(folder)?;
        }
        thread::sleep(SETTLE);
        let processes: Vec<_> = trace.lines.iter().filter_map(process_of).collect();
        let lost_at = Instant::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.lose(&trace, networks)?;
        let finished = trace.finish(PATIENCE);
        if finished.is_err() {
            // It has been given up, and must not stay.
            _ = job.kill();
        }
        finished?;
        let status = job.wait().map_err(|error| error.to_string())?;
        let ended = lost_at.elapsed();
        if status.success() || trace.lines.iter().any(|line| line.text.contains("panicked")) {
            return Err(format!("{status}: {:?}", trace.lines));
        }
        if let Some(process) = processes.into_iter().find(|&process| is_running(process)) {
            return Err(format!("process {process} is left"));
        }
        let mut noticed = Duration::ZERO;
        for node in (0..NODES).filter(|&node| self.survives(node)) {
            noticed = noticed.max(self.noticed(&trace, node, lost_at, since_1970)?);
        }
        let spent =
            trace.lines.iter().filter_map(|line| line.text.strip_prefix("spent ")?.parse().ok());
        Ok(Found { noticed, spent: spent.reduce(f64::max), ended })
    }

    /// Waits until the model has been loaded, as far as can be told.
    fn await_model(&self, folder: &Path) -> Result<(), String> {
        if self.fault == Fault::Killed {
            return await_text(&folder.join(format!("{TEXT}-0")));
        }
        thread::sleep(LOADING);
        Ok(())
    }

    fn start(&self, folder: &Path, networks: Option<&Networks>) -> Result<Child, String> {
        let text = "It is a truth universally acknowledged. ".repeat(10_000);
        fs::write(folder.join(TEXT), text).map_err(|error| error.to_string())?;
        let mut command = if let Some(networks) = networks {
            networks.run(&built("pangea"), NODES / 2, &[])
        } else {
            let mut command = Command::new(built("pangea"));
            command.args(["run", "-n", &NODES.to_string()]);
            command.args(["--path", if self.site == Site::Shm { "shm" } else { "tcp" }]);
            command
        };
        command.arg("--").args(self.during.program(self.fault)).env("TMPDIR", folder);
        command.env("PANGEA_HEAP", "256M").env("PANGEA_TIMEOUT", "60");
        command.env("PANGEA_TEST_VICTIM", self.victim.to_string());
        if self.fault == Fault::Killed {
            // A text is written as slowly as can be.
            command.env("PANGEA_KERNELS", "reference");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))
    }

    /// Does to the victim what is to be done.
    fn lose(&self, trace: &Trace, networks: Option<&Networks>) -> Result<(), String> {
        let of_victim = trace.lines.iter().filter(|line| line.node == Some(self.victim));
        let process = of_victim.filter_map(process_of).next().ok_or("the victim has no process")?;
        let signal = match self.fault {
            Fault::Killed => libc::SIGKILL,
            Fault::Stopped => libc::SIGSTOP,
            Fault::CutOff => return networks.map_or(Ok(()), |networks| networks.plug(false)),
        };
        // SAFETY: the process is of a job that was not waited for; no memory is touched.
        unsafe { libc::kill(process, signal) };
        Ok(())
    }

    /// Whether `node` is to notice: of a cable that is pulled, the nodes at its other end.
    fn survives(&self, node: u16) -> bool {
        if self.fault == Fault::CutOff {
            host(node) != host(self.victim)
        } else {
            node != self.victim
        }
    }

    /// Whether an error that names `lost` tells the truth.
    fn is_lost(&self, lost: u16) -> bool {
        if self.fault == Fault::CutOff { !self.survives(lost) } else { lost == self.victim }
    }

    /// How long it took `node` to say that another is lost, which it must name.
    fn noticed(
        &self,
        trace: &Trace,
        node: u16,
        lost_at: Instant,
        since_1970: Duration,
    ) -> Result<Duration, String> {
        let mut lines = trace.lines.iter().filter(|line| line.node == Some(node));
        let line = lines.find(|line| line.text.contains(" was lost"));
        let line = line.ok_or_else(|| format!("node {node} does not notice: {:?}", trace.lines))?;
        let before = line.text.split_once(" was lost").map_or("", |(before, _)| before);
        let named = before.rsplit(' ').next().and_then(|number| number.parse().ok());
        if !named.is_some_and(|lost| self.is_lost(lost)) {
            return Err(format!("node {node} names the wrong one: {}", line.text));
        }
        // The time that the node itself has told, where it has.
        let told = line.text.strip_prefix("lost ").and_then(|rest| rest.split(' ').next());
        let told = told.and_then(|micros| Some(Duration::from_micros(micros.parse().ok()?)));
        Ok(told.map_or(line.at - lost_at, |told| told.saturating_sub(since_1970)))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = match self.site {
            Site::Shm => "4, shared memory",
            Site::Loopback => "4, TCP on one host",
            Site::TwoHosts => "2 + 2, TCP between two hosts",
        };
        let fault = match self.fault {
            Fault::Killed => "killed",
            Fault::Stopped => "stopped",
            Fault::CutOff => "cut off",
        };
        let during = match self.during {
            During::Barrier => "a barrier",
            During::Gets => "gets from it",
            During::Atomics => "atomics on it",
            During::Model => "a model that lies on all",
        };
        write!(f, "| {site} | {fault} | {during} |")
    }
}

/// The host of `node`, of two.
fn host(node: u16) -> u16 {
    node / (NODES / 2)
}

/// What is built beside this program.
fn built(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().with_file_name(name)
}

/// The process of a node that has just said it.
fn process_of(line: &Line) -> Option<libc::pid_t> {
    line.text.strip_prefix("node ")?.parse().ok()
}

/// Waits until some text is in `file`.
fn await_text(file: &Path) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while fs::metadata(file).map_or(0, |file| file.len()) < 20 {
        if Instant::now() > deadline {
            return Err("no text is written".to_owned());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn is_running(process: libc::pid_t) -> bool {
    fs::exists(format!("/proc/{process}")).unwrap_or(true)
}

/// What is in `folder`, and of ours in the memory that is named as files are.
fn left_in(folder: &Path) -> Vec<String> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let in_memory = entries(Path::new("/dev/shm")).map(name).filter(|name| name.contains("pangea"));
    let own = entries(folder).map(name).filter(|name| !name.starts_with(TEXT));
    own.chain(in_memory).collect()
}
