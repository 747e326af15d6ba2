//! The number that names a job.

use std::fmt;

use super::bytes;
use crate::Result;

/// Names a job, so that the nodes of another are told apart. It is no secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Job([u8; Self::LEN]);

impl Job {
    pub(super) const LEN: usize = 16;

    /// A number of its own for a job that starts now.
    pub fn random() -> Result<Self> {
        bytes::random().map(Self)
    }

    /// The number for which a launcher's `identity` of a job stands.
    pub(super) fn named(identity: &str) -> Self {
        let halves = [1, 2].map(|basis| bytes::digest(basis, identity.as_bytes()).to_le_bytes());
        Self(halves.as_flattened().try_into().expect("two halves make a whole"))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        bytes::parse_hex(text).map(Self)
    }

    pub(super) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// What a caller may say of the job in the clear.
    pub(super) fn digest(&self) -> u64 {
        bytes::digest(0, &self.0)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bytes::write_hex(&self.0, f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_its_way_through_the_environment() {
        let job = Job::random().unwrap();
        assert_eq!(Job::parse(&job.to_string()), Some(job));
        for wrong in ["", "12", &format!("{job}0"), &"g".repeat(32), &"é".repeat(16)] {
            assert_eq!(Job::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_launchers_identity_is_one_job_everywhere() {
        assert_eq!(Job::named("slurm 7.0"), Job::named("slurm 7.0"));
        assert_ne!(Job::named("slurm 7.0"), Job::named("slurm 7.1"));
    }
}
