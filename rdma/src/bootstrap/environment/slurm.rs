//! What Slurm says of the processes of a job step.

use super::{Environment, Launched, Meets};
use crate::{Error, Result, bootstrap::bytes};

const STEP: &str = "SLURM_STEP_ID";
const JOB: &str = "SLURM_JOB_ID";
const RANK: &str = "SLURM_PROCID";
const SIZES: [&str; 2] = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
const HOSTS: [&str; 2] = ["SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"];
const HOST_LISTS: [&str; 2] = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"];

/// Ports from which node 0 of a step takes one: below those that systems hand out by themselves.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

impl Environment<'_> {
    /// What `srun` says of this process; a batch script has the variables too, but is no step.
    pub(super) fn slurm(&self) -> Result<Option<Launched>> {
        let (Some(step), Some(job)) = (self.text(STEP)?, self.text(JOB)?) else { return Ok(None) };
        let Some(rank) = self.number(RANK)? else { return Ok(None) };
        let size = self.number(SIZES[0])?.map_or_else(|| self.number(SIZES[1]), |n| Ok(Some(n)))?;
        let Some(size) = size.filter(|size| *size > 1) else { return Ok(None) };
        let hosts =
            self.number(HOSTS[0])?.map_or_else(|| self.number(HOSTS[1]), |n| Ok(Some(n)))?;
        let identity = format!("slurm {job}.{step}");
        let meets = if hosts == Some(1) { Meets::Here } else { self.place(&identity)? };
        Ok(Some(Launched { rank, size, identity, meets }))
    }

    /// Where the nodes of the step that is called `identity` meet: at its first host.
    fn place(&self, identity: &str) -> Result<Meets> {
        let list = self
            .text(HOST_LISTS[0])?
            .map_or_else(|| self.text(HOST_LISTS[1]), |list| Ok(Some(list)))?;
        let Some(list) = list else { return Ok(Meets::Unknown) };
        let Some(host) = first_host(&list) else {
            let reason = format!("'{list}' is no list of hosts, such as n[1-3,5]");
            return Err(Error::Config { field: HOST_LISTS[0], reason });
        };
        Ok(Meets::At(format!("{host}:{}", port(identity))))
    }
}

/// A port that is the same for all nodes of a step, and most likely not that of another.
fn port(identity: &str) -> u16 {
    let count = u64::from(PORTS.end - PORTS.start);
    let offset = bytes::digest(0, identity.as_bytes()) % count;
    PORTS.start + u16::try_from(offset).expect("less than the number of ports")
}

/// The first host of a list such as `a,b`, `n[1-3,5]` or `rack[01-02]-n[08-10]`.
fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        host += &rest[..end];
        let Some(ranges) = rest[end..].strip_prefix('[') else { break };
        let (ranges, after) = ranges.split_once(']')?;
        let first = ranges.split([',', '-']).next()?;
        if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        host += first;
        rest = after;
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_name)).then_some(host)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_of_a_list_is_found() {
        for (list, first) in [
            ("n1", "n1"),
            ("a,b", "a"),
            ("n[1-3,5]", "n1"),
            ("n[5,1-3],m2", "n5"),
            ("rack[01-02]-n[08-10].site", "rack01-n08.site"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
        for wrong in ["", "n[", "n[]", "n[a-b]", "n]1", "[", ",", "a b", "n[1-3", "é[1]"] {
            assert_eq!(first_host(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn steps_have_ports_of_their_own() {
        let ports: Vec<u16> = (0..20).map(|step| port(&format!("slurm 7.{step}"))).collect();
        assert!(ports.iter().all(|port| PORTS.contains(port)));
        assert!(ports.windows(2).all(|two| two[0] != two[1]), "{ports:?}");
    }
}
