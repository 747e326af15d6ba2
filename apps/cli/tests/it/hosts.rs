//! `pangea run --hosts`: several hosts, which are all this one.
//!
//! In the place of ssh is a script that forgets the name of the host and runs the command in
//! another folder; one test has a real sshd.

mod sshd;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::pangea::{Ended, command, model};

const PATIENCE: Duration = Duration::from_secs(60);

/// Hosts whose names begin with `gone` cannot be reached; the shells of `chatty` ones say hello.
const SSH: &str = r#"#!/bin/sh
while case $1 in -*) true;; *) false;; esac; do shift; done
host=$1
[ "$2" = -- ] && shift
shift
case $host in
gone*) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255;;
chatty*) echo "Welcome to $host"; echo; echo "Last login: never" >&2;;
esac
cd / && exec sh -c "$*"
"#;

/// A folder of the test `name`, with the script in it.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hosts-{name}"));
    fs::create_dir_all(&folder).unwrap();
    let ssh = folder.join("ssh");
    // Renamed into its place: nobody runs a script that is being written.
    let new = folder.join(format!("ssh-{}", process::id()));
    fs::write(&new, SSH).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(new, ssh).unwrap();
    folder
}

/// The command that runs `script` on `hosts`.
fn on_hosts(name: &str, hosts: &str, options: &[&str], script: &str) -> Command {
    let arguments = [&["run", "--hosts", hosts][..], options, &["--", "sh", "-c", script]].concat();
    let mut command = command(&arguments);
    let folder = folder(name);
    command.env("PANGEA_SSH", folder.join("ssh")).current_dir(folder);
    command
}

fn run(name: &str, hosts: &str, options: &[&str], script: &str) -> Ended {
    on_hosts(name, hosts, options, script).output().unwrap().into()
}

/// Starts a job of which each node prints a line of process numbers and then goes on: its own, and
/// that of what has started it.
fn start(name: &str, hosts: &str) -> (Child, Vec<[libc::pid_t; 2]>) {
    let script = "echo $$ $PPID; exec sleep 300";
    let mut command = on_hosts(name, hosts, &["--raw"], script);
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(job.stdout.as_mut().unwrap()).lines();
    let numbers = |line: String| {
        let numbers: Vec<_> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    };
    let nodes = lines.take(hosts.split(',').count()).map(|line| numbers(line.unwrap()));
    let nodes = nodes.collect();
    (job, nodes)
}

fn signal(process: libc::pid_t, signal: i32) {
    // SAFETY: the process is of a job of this test, which has not ended; no memory is touched.
    unsafe { libc::kill(process, signal) };
}

fn is_running(process: libc::pid_t) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A zombie has ended, if nobody has asked how.
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Waits until all of these have ended.
fn gone(nodes: &[[libc::pid_t; 2]]) {
    let deadline = Instant::now() + PATIENCE;
    while nodes.as_flattened().iter().copied().any(is_running) {
        assert!(Instant::now() < deadline, "a process is left of {nodes:?}");
        thread::yield_now();
    }
}

#[test]
fn nodes_of_all_hosts_are_told_who_they_are_and_print_here() {
    let script = "echo node $PANGEA_NODE of $PANGEA_NODES in $PWD; echo err >&2";
    let ended = run("print", "one,two,one", &[], script);
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    let folder = folder("print");
    let expected: Vec<_> =
        (0..3).map(|node| format!("[{node}] node {node} of 3 in {}", folder.display())).collect();
    assert_eq!(lines, expected, "{ended:?}");
    assert_eq!(ended.stderr.matches("] err\n").count(), 3, "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_file_of_hosts_says_where_nodes_listen_and_by_which_devices() {
    let file = folder("file").join("hosts.json");
    let text = r#"{"envs": ["COLOR=green"], "hosts": [
        {"ssh": "one", "ips": ["127.0.0.1"], "rdma": [null, "rdma_en2"]},
        {"ssh": "localhost", "ips": ["127.0.0.1"], "rdma": ["rdma_en2", null], "slots": 4}]}"#;
    fs::write(&file, text).unwrap();
    let script = "echo $COLOR $PANGEA_ADDRESSES $PANGEA_RDMA $PANGEA_PATH $PANGEA_REQUIRE \
                  $PANGEA_TRUSTED_NETWORK";
    let options = ["--path", "tcp", "--require", "rdma", "--trusted-network"];
    let ended = run("file", file.to_str().unwrap(), &options, script);
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    let rest = "tcp rdma 1";
    let expected = [
        format!("[0] green 127.0.0.1 ,rdma_en2 {rest}"),
        format!("[1] green 127.0.0.1 rdma_en2, {rest}"),
    ];
    assert_eq!(lines, expected, "{ended:?}");
    assert!(ended.stderr.contains("'slots' of entry 1"), "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_bad_file_of_hosts_is_an_error_that_names_entry_and_field() {
    let file = folder("bad").join("hosts.json");
    fs::write(&file, r#"[{"ssh": "one"}, {"ips": []}]"#).unwrap();
    let error = run("bad", file.to_str().unwrap(), &[], "true").error();
    assert!(error.contains("hosts.json") && error.contains("entry 1 has no 'ssh'"), "{error}");
}

#[test]
fn output_can_be_left_as_it_is_or_written_to_files() {
    let raw = run("raw", "one,two", &["--raw"], "printf 'x\\n\\377'");
    assert_eq!(raw.code, Some(0), "{raw:?}");
    assert_eq!(raw.stdout.matches("x\n").count(), 2, "{raw:?}");
    let ended =
        run("files", "one,two", &["--output", "out"], "echo out $PANGEA_NODE; echo err >&2");
    assert_eq!(ended.success(), "");
    for node in 0..2 {
        let read = |end: &str| fs::read(folder("files").join(format!("out/node-{node}.{end}")));
        assert_eq!(read("out").unwrap(), format!("out {node}\n").into_bytes());
        assert_eq!(read("err").unwrap(), b"err\n");
    }
}

#[test]
fn a_node_that_fails_ends_all_hosts_and_gives_its_code() {
    let script = "[ $PANGEA_NODE = 1 ] && exit 7; exec sleep 300";
    let ended = run("fails", "one,two,one", &[], script);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.stderr.contains("node 1 failed"), "{ended:?}");
}

#[test]
fn a_node_that_is_killed_ends_all_hosts() {
    let (job, nodes) = start("killed", "one,two,one");
    signal(nodes[1][0], libc::SIGKILL);
    let ended: Ended = job.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
    gone(&nodes);
}

#[test]
fn a_host_that_is_lost_is_named_and_ends_the_others() {
    let (job, nodes) = start("lost", "one,two");
    let parents = [nodes[0][1], nodes[1][1]];
    signal(parents[1], libc::SIGKILL);
    let ended: Ended = job.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("the connection ended"), "{ended:?}");
    gone(&nodes);
}

#[test]
fn nodes_of_all_hosts_end_with_their_launcher() {
    let (mut job, nodes) = start("launcher", "one,two,localhost");
    signal(job.id().try_into().unwrap(), libc::SIGKILL);
    job.wait().unwrap();
    gone(&nodes);
}

#[test]
fn signals_reach_the_nodes_of_all_hosts() {
    for (number, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let (job, nodes) = start("signals", "one,two");
        signal(job.id().try_into().unwrap(), number);
        let ended: Ended = job.wait_with_output().unwrap().into();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        gone(&nodes);
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_an_error_with_the_words_of_ssh() {
    let ended = run("gone", "one,gone-2", &[], "exec sleep 300");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let error = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("host gone-2") && error.contains("Connection refused"), "{error}");
}

#[test]
fn a_wrong_path_or_folder_or_program_is_an_error_that_says_so() {
    let error = |options: &[&str], code| {
        let ended = run("wrong", "one", options, "true");
        assert_eq!(ended.code, Some(code), "{ended:?}");
        ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap().to_owned()
    };
    let path = error(&["--remote-pangea", "/no/such/pangea"], 1);
    assert!(path.contains("/no/such/pangea") && path.contains("--remote-pangea"), "{path}");
    let folder = error(&["--remote-dir", "/no/such/folder"], 2);
    assert!(folder.contains("/no/such/folder") && folder.contains("--remote-dir"), "{folder}");
    let program = command(&["run", "--hosts", "localhost", "--", "/no/such/program"]);
    let program = Ended::from({ program }.output().unwrap());
    assert_eq!(program.code, Some(2), "{program:?}");
    assert!(program.stderr.contains("cannot start /no/such/program"), "{program:?}");
}

#[test]
fn what_the_shell_of_a_host_says_is_no_report() {
    let ended = run("chatty", "chatty", &[], "echo yes");
    assert_eq!(ended.stdout, "[0] yes\n", "{ended:?}");
    assert!(ended.stderr.contains("[chatty] Last login: never"), "{ended:?}");
}

#[test]
fn the_key_is_on_no_command_line() {
    // The command line of what has started the node, and whether the node itself has the key.
    let script = "tr '\\0' ' ' </proc/$PPID/cmdline; echo; env | grep -c PANGEA_JOB";
    let ended = run("key", "one", &["--raw"], script);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].ends_with("run-host ") && !lines[0].contains("PANGEA"), "{ended:?}");
    assert_eq!(lines[1], "1", "{ended:?}");
}

#[test]
fn the_path_to_a_host_is_proved() {
    let mut doctor = command(&["doctor", "--pair", "two"]);
    let ended: Ended =
        doctor.env("PANGEA_SSH", folder("pair").join("ssh")).output().unwrap().into();
    let find = |name: &str| ended.stdout.lines().find(|line| line.contains(name)).unwrap();
    assert!(find("path to two").starts_with("ok ") && find("path to two").contains("GB/s"));
    assert!(find("clock of two").starts_with("ok "), "{ended:?}");
    let mut doctor = command(&["doctor", "--pair", "gone"]);
    let ended: Ended =
        doctor.env("PANGEA_SSH", folder("pair").join("ssh")).output().unwrap().into();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let line = ended.stdout.lines().find(|line| line.contains("path to gone")).unwrap();
    assert!(line.starts_with("PROBLEM") && line.contains("Connection refused"), "{line}");
}

#[test]
fn a_cluster_of_several_hosts_computes_what_one_does() {
    let pangea = env!("CARGO_BIN_EXE_pangea");
    let demo = ["--", pangea, "demo", "--max-tokens", "5"];
    let text = |arguments: &[&str]| {
        let mut command = command(&[arguments, &demo[..]].concat());
        let ended = command.env("PANGEA_SSH", folder("demo").join("ssh")).output().unwrap();
        let text = Ended::from(ended).success();
        text.lines().next().unwrap().to_owned()
    };
    let expected = text(&["run", "-n", "2"]);
    assert!(expected.starts_with("[0] It is a truth"), "{expected}");
    assert_eq!(text(&["run", "--hosts", "one,two"]), expected);
    assert_eq!(text(&["run", "--hosts", "localhost,two", "--coordinator", "localhost"]), expected);
    assert_eq!(text(&["run", "-n", "2", "--path", "tcp"]), expected);
}

#[test]
fn a_node_killed_while_text_is_generated_is_the_first_cause() {
    let (pangea, model) = (env!("CARGO_BIN_EXE_pangea"), model("austen-q8_0.gguf"));
    let script = format!(
        "echo $$ >node-$PANGEA_NODE; exec {pangea} llm complete {model} -p It --max-tokens 500 \
         --ignore-eos"
    );
    let mut job = on_hosts("cause", "one,two,one", &["--raw"], &script);
    job.env("PANGEA_KERNELS", "reference").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = job.spawn().unwrap();
    job.stdout.as_mut().unwrap().read_exact(&mut [0; 20]).unwrap();
    let process = |node| {
        let number = fs::read_to_string(folder("cause").join(format!("node-{node}")));
        number.unwrap().trim().parse().unwrap()
    };
    // The node that writes is held until the other is dead, so that it cannot be done before.
    signal(process(0), libc::SIGSTOP);
    signal(process(1), libc::SIGKILL);
    signal(process(0), libc::SIGCONT);
    let ended: Ended = job.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
    assert!(ended.stderr.contains("node 1 was lost"), "{ended:?}");
    assert!(ended.stderr.contains("node 1 failed"), "{ended:?}");
}
