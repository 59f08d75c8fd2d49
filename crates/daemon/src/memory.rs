//! How much memory users may use, and how much they use.

use std::sync::Arc;

use serde_json::{Value, json};
use slipring_netmap::{Domain, Parameters};

/// A user's default limit is the machine's memory divided by this number.
const SHARE_DIVISOR: u64 = 4;
/// Limits are multiples of this number of bytes.
const LIMIT_GRANULARITY_BYTES: u64 = 2 << 20;
/// The parameter that sets the number of buffers in a user's global memory.
const BUFFERS_PARAMETER: &str = "buf_num";

/// Returns the default limit of a user, which is a quarter of the machine's memory, in bytes.
pub(crate) fn default_limit() -> u64 {
    let info = rustix::system::sysinfo();
    share_of(info.totalram as u64 * u64::from(info.mem_unit.max(1)))
}

fn share_of(total: u64) -> u64 {
    (total / SHARE_DIVISOR / LIMIT_GRANULARITY_BYTES).max(1) * LIMIT_GRANULARITY_BYTES
}

/// Limits the buffers of a user's global memory to half of the user's limit. On a machine with
/// little memory, there are then fewer buffers than by default in netmap.
pub(crate) fn fit_buffers(parameters: &Parameters, limit: u64) {
    let now = parameters.current();
    let fitting = limit / 2 / u64::from(now.buf_size);
    if u64::from(now.buf_num) > fitting {
        // If the number is too small for netmap, `set` refuses it, and the first bind fails.
        let _ = parameters.set(BUFFERS_PARAMETER, fitting as i64);
    }
}

/// Describes users and their memory, for the control socket.
pub(crate) fn usage_json(domains: &[Arc<Domain>]) -> Value {
    let one = |domain: &Arc<Domain>| {
        let used = domain.memory_use();
        let port = |(netns, name): (u64, String)| json!({ "port": name, "netns": netns });
        let lasting: Vec<_> = domain.persistent_ports().into_iter().map(port).collect();
        json!({
            "uid": domain.uid(), "limit": used.limit, "placed": used.placed,
            "touched": used.touched, "persistent": lasting,
        })
    };
    let mut users: Vec<_> = domains.iter().map(one).collect();
    users.sort_by_key(|user| user["uid"].as_u64());
    json!({ "memory": users })
}

/// Formats the memory use of each user, one line per user.
pub(crate) fn usage_lines(users: &Value) -> String {
    let line = |user: &Value| {
        let mib = |key: &str| user[key].as_u64().unwrap_or_default().div_ceil(1 << 20);
        let mut line = format!(
            "user {:<10} {} MiB touched, {} MiB in ports, at most {} MiB",
            user["uid"],
            mib("touched"),
            mib("placed"),
            mib("limit"),
        );
        let ports = user["persistent"].as_array().into_iter().flatten();
        let names: Vec<_> = ports.filter_map(|port| port["port"].as_str()).collect();
        if !names.is_empty() {
            line += &format!("; persistent: {}", names.join(" "));
        }
        line + "\n"
    };
    users.as_array().into_iter().flatten().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_netmap::MemoryParams;

    #[test]
    fn a_user_may_have_a_quarter_of_the_machine_at_most() {
        assert_eq!(share_of(24 << 30), 6 << 30);
        assert_eq!(share_of((1 << 30) + 5), 256 << 20);
        assert_eq!(share_of(0), LIMIT_GRANULARITY_BYTES);
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kib: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
        assert!((1..=kib * 1024 / 4).contains(&default_limit()));
    }

    #[test]
    fn a_small_machine_has_fewer_buffers_and_a_large_one_netmaps() {
        let parameters = Parameters::new(&MemoryParams::default());
        fit_buffers(&parameters, 6 << 30);
        assert_eq!(parameters.current().buf_num, 163_840);
        fit_buffers(&parameters, 256 << 20);
        let now = parameters.current();
        let bytes = u64::from(now.buf_num) * u64::from(now.buf_size);
        assert!(bytes <= 128 << 20 && bytes > 127 << 20, "{bytes}");
    }
}
