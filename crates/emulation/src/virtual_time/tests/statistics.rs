//! Tests of links with random results: distributions, shares, bursts, seeds. Every seed is fixed,
//! so the tests are deterministic; the bounds are values that a correct random result exceeds with
//! a probability of about one in a thousand, or less.

use super::{Frame, Lab, MS, capture, link, up};

/// Returns the delays of frames that arrived `gap_ns` apart.
fn delays(out: &[Frame], gap_ns: u64) -> Vec<f64> {
    out.iter().map(|frame| (frame.at_ns - frame.id * gap_ns) as f64).collect()
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

/// Returns the Kolmogorov-Smirnov statistic: the greatest distance between the distribution
/// function of the values and `cdf`.
fn distance(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let step = |(i, &value): (usize, &f64)| {
        let (low, high) = (i as f64 / count, (i + 1) as f64 / count);
        (cdf(value) - low).abs().max((high - cdf(value)).abs())
    };
    values.iter().enumerate().map(step).fold(0.0, f64::max)
}

fn paced(count: u64, gap_ns: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..count).map(move |i| (i * gap_ns, 60))
}

#[test]
fn a_uniform_delay_is_uniform() {
    let gap = 10 * MS;
    let (out, _) = link("-D uniform,1ms,9ms", paced(100_000, gap));
    let delays = delays(&out, gap);
    let (mean, _) = mean_and_sd(&delays);
    assert!((mean - 5e6).abs() < 25_000.0, "{mean}");
    let found = distance(delays, |ns| ((ns - 1e6) / 8e6).clamp(0.0, 1.0));
    assert!(found < 0.0062, "{found}");
}

#[test]
fn a_table_gives_only_its_own_values() {
    let lab = Lab::new();
    let table: Vec<i32> = (0..512).map(|i| (f64::from(i - 256) * 54.7) as i32).collect();
    let text: Vec<_> = table.iter().map(ToString::to_string).collect();
    lab.write("own.dist", text.join(" ").as_bytes());
    let gap = 500 * MS;
    lab.write("in.pcap", &capture(paced(20_000, gap)));
    lab.emulate(&format!("-D table,{},100ms,10ms", lab.path("own.dist").display()));
    let allowed: std::collections::HashSet<u64> = table
        .iter()
        .map(|entry| (100e6 + 10e6 * f64::from(*entry) / 8192.0).round() as u64)
        .collect();
    let out = lab.frames("out.pcap");
    let strange = out.iter().find(|frame| {
        let delay = frame.at_ns - frame.id * gap;
        !(delay - 1..=delay + 1).any(|near| allowed.contains(&near))
    });
    assert_eq!(strange, None);
    let (mean, sd) = mean_and_sd(&delays(&out, gap));
    let (asked_mean, asked_sd) =
        mean_and_sd(&allowed.iter().map(|&ns| ns as f64).collect::<Vec<_>>());
    assert!((mean / asked_mean - 1.0).abs() < 0.01, "{mean} {asked_mean}");
    assert!((sd / asked_sd - 1.0).abs() < 0.02, "{sd} {asked_sd}");
}

#[test]
fn correlated_jitter_keeps_mean_and_deviation() {
    // The delay changes with time, not per packet, so the test covers a minute with many packets.
    let gap = 60_000;
    let args = "-D normal,5ms,1.5ms --half-life 10ms --order correlated";
    let (out, _) = link(args, paced(1_000_000, gap));
    let (mean, sd) = mean_and_sd(&delays(&out, gap));
    assert!((mean - 5e6).abs() < 150_000.0, "{mean}");
    assert!((sd / 1.5e6 - 1.0).abs() < 0.1, "{sd}");
}

#[test]
fn correlated_jitter_hardly_ever_puts_a_frame_off() {
    let args = "-D normal,5ms,1.5ms --half-life 10ms --order correlated";
    let (out, report) = link(args, paced(500_000, 10_000));
    assert!(out.windows(2).all(|pair| pair[0].id < pair[1].id), "none overtakes");
    assert_eq!(up(&report)["reordered"], 0);
    let clamped = up(&report)["clamped"]["packets"].as_u64().unwrap();
    assert!(clamped <= 500, "{clamped}");
}

#[test]
fn a_loss_rate_is_kept_and_each_direction_draws_its_own() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture(paced(1_000_000, 1000)));
    let args = "--virtual @in.pcap @up.pcap @in.pcap @down.pcap -L 1% --seed 7";
    assert_eq!(lab.run(args).status, 0);
    let lost = |name: &str| {
        let mut lost = vec![true; 1_000_000];
        lab.frames(name).iter().for_each(|frame| lost[frame.id as usize] = false);
        lost
    };
    let (up, down) = (lost("up.pcap"), lost("down.pcap"));
    let count = |lost: &[bool]| lost.iter().filter(|lost| **lost).count() as f64;
    for lost in [&up, &down] {
        assert!((count(lost) - 10_000.0).abs() <= 330.0, "{}", count(lost));
    }
    let both = up.iter().zip(&down).filter(|(up, down)| **up && **down).count() as f64;
    let correlation = (both / 1e6 - 1e-4) / (0.01 * 0.99);
    assert!(correlation.abs() < 0.01, "{correlation}");
}

#[test]
fn losses_in_bursts_have_their_share_and_length() {
    let (out, _) = link("-L ge,.01,.25,1,0", paced(1_000_000, 1000));
    let gaps = out.windows(2).map(|pair| pair[1].id - pair[0].id - 1);
    let bursts: Vec<u64> = gaps.filter(|lost| *lost > 0).collect();
    let lost = 1_000_000 - out.len() as u64;
    assert!((lost as f64 / 1e6 - 0.0385).abs() < 0.002, "{lost}");
    let mean = bursts.iter().sum::<u64>() as f64 / bursts.len() as f64;
    assert!((mean - 4.0).abs() < 0.1, "{mean}");
    // A chi-squared test against the geometric distribution: with 15 degrees of freedom, a correct
    // result exceeds 37.7 with a probability of one in a thousand.
    let total = bursts.len() as f64;
    let chi: f64 = (1..=16)
        .map(|len| {
            let seen = bursts.iter().filter(|&&burst| burst == len || (len == 16 && burst > 16));
            let tail = 0.75f64.powi(len as i32 - 1);
            let expected = total * if len == 16 { tail } else { 0.25 * tail };
            (seen.count() as f64 - expected).powi(2) / expected
        })
        .sum();
    assert!(chi < 37.7, "{chi}");
}

#[test]
fn a_seed_repeats_a_run_to_the_byte_and_another_does_not() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture(paced(100_000, 1000)));
    let run = |seed: u64, out: &str| {
        let args = format!("--virtual @in.pcap @{out} -L 1% -D exp,1ms,3ms --seed {seed}");
        assert_eq!(lab.run(&args).status, 0);
        lab.bytes(out)
    };
    let first = run(7, "a.pcap");
    assert!(first == run(7, "b.pcap"));
    assert!(first != run(8, "c.pcap"));
}

/// Hashes the outputs of two links that use all stages together. The hashes must be the same on
/// every machine.
#[test]
fn all_stages_together_give_these_bytes_on_every_machine() {
    let lab = Lab::new();
    let input = (0..50_000u64).map(|i| (i * 20_000, 60 + (i * 37 % 1400) as u32));
    lab.write("in.pcap", &capture(input));
    lab.write("wifi.profile", b"bw 400Mbit/s\nloss-level 0.9\nprob delay\n0 0.01\n1 0.5\n");
    let first = "-B ether,400m -Q codel,5ms,100ms -D normal,5ms,1.5ms --half-life 10ms -R 0.1%,2ms \
         -L ge,.01,.25,1,0 --corrupt 1e-6 --duplicate 0.1% --police 500m,100k";
    let others = format!(
        "--profile {} -D 5ms -O 100us --mangle random,14,8,10% --up output=1g",
        lab.path("wifi.profile").display()
    );
    for (args, hash) in [
        (first, include_str!("golden/all_stages.fnv")),
        (&others, include_str!("golden/other_stages.fnv")),
    ] {
        lab.emulate(args);
        assert_eq!(format!("{:016x}", fnv(&lab.bytes("out.pcap"))), hash.trim(), "{args}");
    }
}

/// Returns the 64-bit FNV-1a hash.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
