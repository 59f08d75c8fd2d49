//! Prints what one use of each part costs on this machine, in nanoseconds, and what making a gamma
//! distribution costs, in microseconds; with any argument, only what the wheels cost:
//! `cargo run --release -p slipring-model --example model_cost`.

use std::hint::black_box;
use std::time::Instant;

use slipring_model::{
    CdfPoint, Chance, Correlated, DelayLine, Dist, FourState, GilbertElliott, ParameterError,
    Stream, TimedGilbertElliott, Wheel,
};

fn main() -> Result<(), ParameterError> {
    if std::env::args().len() == 1 {
        distributions()?;
        correlated()?;
        losses()?;
    }
    for in_flight in [1_000, 10_000, 100_000, 1_000_000] {
        wheel(in_flight);
    }
    Ok(())
}

fn distributions() -> Result<(), ParameterError> {
    let entries: Vec<i16> = (0..4096).map(|n| (n - 2048) * 8).collect();
    let points: Vec<CdfPoint> =
        (0..=100).map(|n| f64::from(n) / 100.0).map(|p| CdfPoint { ns: 1e7 * p * p, p }).collect();
    let dists = [
        ("constant", Dist::constant(20_000_000)),
        ("uniform", Dist::uniform(1_000_000, 9_000_000)?),
        ("normal", Dist::normal(20e6, 3e6)?),
        ("normal in a range", Dist::normal(20e6, 3e6)?.within(18e6, 22e6)?),
        ("exponential", Dist::exponential(0, 7e6)?),
        ("pareto", Dist::pareto(5e6, 3.0)?),
        ("lognormal", Dist::lognormal(20e6, 10e6)?),
        ("gamma", Dist::gamma(2.5, 4e6)?),
        ("weibull", Dist::weibull(1.7, 1e7)?),
        ("table of 4096", Dist::table(&entries, 20e6, 3e6)?),
        ("cdf of 101 points", Dist::cdf(&points)?),
    ];
    let mut stream = Stream::new(1, "cost");
    report("a number of a stream", || stream.next_u64());
    for (name, dist) in dists {
        let dist = black_box(dist);
        report(&format!("draw: {name}"), || dist.sample_ns(&mut stream));
    }
    let start = Instant::now();
    let made = 100;
    for shape in 0..made {
        black_box(Dist::gamma(2.0 + f64::from(shape), 4e6)?);
    }
    println!(
        "{:<34}{:>8.0} us",
        "make: gamma",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(made)
    );
    Ok(())
}

fn correlated() -> Result<(), ParameterError> {
    let delay = Dist::normal(20e6, 3e6)?;
    for (name, gap_ns) in [("1 Mpps", 1_000), ("1 kpps", 1_000_000)] {
        let mut process = Correlated::new(10_000_000, slipring_model::Draws::new(1, "cost"), 0)?;
        let mut now_ns = 0;
        report(&format!("correlated normal at {name}"), || {
            now_ns += gap_ns;
            delay.at(process.draw_at(now_ns))
        });
    }
    Ok(())
}

fn losses() -> Result<(), ParameterError> {
    let p = |percent| Chance::from_ratio(percent, 100).unwrap_or(Chance::NEVER);
    let mut stream = Stream::new(1, "cost");
    let mut gilbert = GilbertElliott::new(p(1), p(25), p(100), p(0));
    report("loss: Gilbert-Elliott", || u64::from(gilbert.lost(&mut stream)));
    let mut four = FourState::new(p(1), p(20), p(30), p(40), p(1))?;
    report("loss: four states", || u64::from(four.lost(&mut stream)));
    let mut timed = TimedGilbertElliott::new(9e6, 1e6, p(100), p(0))?;
    let mut now_ns = 0;
    let draws = slipring_model::Draws::new(1, "cost");
    report("loss: Gilbert-Elliott in time", || {
        now_ns += 1_000;
        u64::from(timed.lost_at(now_ns, draws, draws.at(now_ns)))
    });
    Ok(())
}

/// Pushes and pops with uniform delays around 5 ms, at the rate that keeps `in_flight` handles
/// queued; pops after every 64 pushes.
fn wheel(in_flight: u32) {
    let mut wheel = Wheel::new();
    let mut line = DelayLine::new();
    let each_ns = flow(in_flight, &mut wheel, Wheel::push, Wheel::pop_due);
    println!("{:<34}{each_ns:>8.1} ns", format!("wheel, {in_flight} in flight"));
    let each_ns = flow(in_flight, &mut line, DelayLine::push, DelayLine::pop_due);
    println!("{:<34}{each_ns:>8.1} ns", format!("delay line, {in_flight} in flight"));
}

/// Returns the cost in ns of one push and one pop of a handle whose delay is already known.
fn flow<Q>(
    in_flight: u32,
    queue: &mut Q,
    push: impl Fn(&mut Q, u64, u32),
    pop_due: impl Fn(&mut Q, u64) -> Option<u32>,
) -> f64 {
    const BATCH: usize = 64;
    let gap_ns = 5e6 / f64::from(in_flight);
    let mut stream = Stream::new(1, "cost");
    let delays: Vec<u64> = (0..1 << 16).map(|_| 500_000 + stream.below(9_000_000)).collect();
    // A round takes at least about as much virtual time as the mean delay, which is 5 ms. So each
    // round contains a typical share of rare operations.
    let batches = (in_flight as usize / BATCH).max(300);
    let (mut now_ns, mut best) = (1e15, f64::MAX);
    for _ in 0..(10_000_000 / (batches * BATCH)).max(20) {
        let start = Instant::now();
        for batch in 0..batches {
            for &delay_ns in &delays[batch * BATCH % delays.len()..][..BATCH] {
                now_ns += gap_ns;
                push(queue, now_ns as u64 + delay_ns, delay_ns as u32);
            }
            while let Some(handle) = pop_due(queue, now_ns as u64) {
                black_box(handle);
            }
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / (batches * BATCH) as f64);
    }
    best
}

/// Prints the minimum of many runs, because disturbances only add time.
fn report(name: &str, mut once: impl FnMut() -> u64) {
    const COUNT: u32 = 50_000;
    let mut best = f64::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        let mut sum = 0u64;
        for _ in 0..COUNT {
            sum = sum.wrapping_add(once());
        }
        black_box(sum);
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(COUNT));
    }
    println!("{name:<34}{best:>8.2} ns");
}
