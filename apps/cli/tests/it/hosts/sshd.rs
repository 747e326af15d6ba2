//! A job over the real ssh, to an sshd of its own.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::Instant,
};

use super::PATIENCE;
use crate::pangea::{Ended, command};

const SSHD: &str = "/usr/sbin/sshd";

/// An sshd that lets in who has a key that was made for it; it ends when dropped.
struct Sshd {
    child: Child,
    folder: PathBuf,
}

impl Sshd {
    fn start(folder: &Path) -> Self {
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(key))
                .status();
            assert!(made.unwrap().success());
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        let path = folder.display();
        let port = free_port();
        let daemon = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {path}/host\nPidFile none\n\
             AuthorizedKeysFile {path}/authorized\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\n"
        );
        let client = format!(
            "Host real-*\n HostName 127.0.0.1\n Port {port}\n IdentityFile {path}/user\n \
             IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n \
             LogLevel ERROR\n"
        );
        fs::write(folder.join("sshd.conf"), daemon).unwrap();
        fs::write(folder.join("ssh.conf"), client).unwrap();
        let script = folder.join("ssh");
        fs::write(&script, format!("#!/bin/sh\nexec ssh -F {path}/ssh.conf \"$@\"\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        // Where it locks itself in; made by the system where it runs as a service.
        _ = fs::create_dir_all("/run/sshd");
        let mut daemon = Command::new(SSHD);
        daemon.args(["-D", "-e", "-f"]).arg(folder.join("sshd.conf"));
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = daemon.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < deadline, "sshd does not listen");
            thread::yield_now();
        }
        Self { child, folder: folder.to_owned() }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A port that nobody had a moment ago.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[test]
fn a_job_runs_over_the_real_ssh() {
    if !Path::new(SSHD).exists() {
        eprintln!("SKIPPED: there is no {SSHD} (apt install openssh-server)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("hosts-sshd-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let sshd = Sshd::start(&folder);
    let run = |hosts: &str, script: &str| -> Ended {
        let mut job = command(&["run", "--hosts", hosts, "--", "sh", "-c", script]);
        job.env("PANGEA_SSH", folder.join("ssh")).output().unwrap().into()
    };
    let ended = run("real-1,real-2,real-1", "echo node $PANGEA_NODE; [ $PANGEA_NODE != 3 ]");
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] node 0", "[1] node 1", "[2] node 2"], "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = run("real-1,real-2", "[ $PANGEA_NODE = 1 ] && kill -9 $$; exec sleep 300");
    assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
    drop(sshd);
}
