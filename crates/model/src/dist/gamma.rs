//! The gamma distribution with scale 1: the regularised incomplete gamma functions and their
//! inverse, accurate in both tails.

use super::Tail;

/// The probability of a value of at most `x` for shape `a`.
pub(super) fn below(a: f64, x: f64) -> f64 {
    if x < a + 1.0 { series(a, x) } else { 1.0 - fraction(a, x) }
}

/// The probability of a value above `x` for shape `a`.
pub(super) fn above(a: f64, x: f64) -> f64 {
    if x < a + 1.0 { 1.0 - series(a, x) } else { fraction(a, x) }
}

/// The quantile for shape `a`: the value with the probability of `tail` below it (`Tail::Low`) or
/// above it (`Tail::High`).
///
/// Uses Newton's method on the logarithm of the tail as a function of the logarithm of the value.
/// Both tails are concave in these coordinates, so the method converges from any start. A bracket
/// bounds the steps if the start is poor.
pub(super) fn quantile(a: f64, tail: Tail) -> f64 {
    let (mut low, mut high) = (-745.0, libm::log(a + 1.0) + 60.0);
    let mut t = start(a, tail).clamp(low, high);
    for _ in 0..200 {
        let (excess, slope) = log_tail(a, libm::exp(t), tail);
        if excess < 0.0 {
            low = t;
        } else {
            high = t;
        }
        let mut next = t - excess / slope;
        if !(low..=high).contains(&next) {
            next = 0.5 * (low + high);
        }
        if (next - t).abs() <= 1e-14 * (1.0 + t.abs()) {
            return libm::exp(next);
        }
        t = next;
    }
    libm::exp(t)
}

/// Returns the logarithm of the ratio of the probability at `x` to that in `tail`, and its slope
/// over ln `x`. The sign of the logarithm is chosen so that it grows with `x`.
fn log_tail(a: f64, x: f64, tail: Tail) -> (f64, f64) {
    let weight = power(a, x);
    match tail {
        Tail::Low(p) => {
            let reached = below(a, x);
            (libm::log(reached) - libm::log(p), weight / reached)
        }
        Tail::High(q) => {
            let reached = above(a, x);
            (libm::log(q) - libm::log(reached), weight / reached)
        }
    }
}

/// Returns the logarithm of the value at which the iteration starts: the cube of a normal value
/// (Wilson and Hilferty). Near zero, where the cube is inaccurate, the leading term of the series
/// is solved for the value instead.
fn start(a: f64, tail: Tail) -> f64 {
    let z = super::normal::quantile(tail);
    let root = 1.0 - 1.0 / (9.0 * a) + z / (3.0 * libm::sqrt(a));
    if root > 0.1 {
        return libm::log(a) + 3.0 * libm::log(root);
    }
    let p = match tail {
        Tail::Low(p) => p,
        Tail::High(q) => 1.0 - q,
    };
    (libm::log(p) + libm::lgamma(a + 1.0)) / a
}

/// Returns x^a e^-x / gamma(a), which is the density over ln x.
fn power(a: f64, x: f64) -> f64 {
    libm::exp(a * libm::log(x) - x - libm::lgamma(a))
}

/// The probability of a value of at most `x`, by its power series (Abramowitz and Stegun 6.5.29).
fn series(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut term = 1.0 / a;
    let mut sum = term;
    let mut n = a;
    while term > sum * 1e-17 {
        n += 1.0;
        term *= x / n;
        sum += term;
    }
    sum * power(a, x)
}

/// The probability of a value above `x`, by its continued fraction (Abramowitz and Stegun 6.5.31),
/// evaluated with Lentz's method.
fn fraction(a: f64, x: f64) -> f64 {
    if x == f64::INFINITY {
        return 0.0;
    }
    let mut b = x + 1.0 - a;
    let mut c = f64::MAX;
    let mut d = 1.0 / b;
    let mut product = d;
    let mut n = 0.0;
    loop {
        n += 1.0;
        let numerator = n * (a - n);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        let factor = c * d;
        product *= factor;
        if (factor - 1.0).abs() < 1e-16 || n > 1e6 {
            return product * power(a, x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_one_is_the_exponential() {
        for x in [1e-6, 0.1, 1.0, 5.0, 40.0] {
            assert!((below(1.0, x) / -libm::expm1(-x) - 1.0).abs() < 1e-13, "{x}");
            assert!((above(1.0, x) / libm::exp(-x) - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn shape_one_half_is_the_square_of_a_normal() {
        for z in [0.01, 0.5, 1.0, 2.0, 5.0] {
            let outside = libm::erfc(z / core::f64::consts::SQRT_2);
            assert!((above(0.5, z * z / 2.0) / outside - 1.0).abs() < 1e-12, "{z}");
        }
    }

    #[test]
    fn quantile_inverts_the_probability_for_all_shapes_and_tails() {
        for a in [0.01, 0.3, 1.0, 2.5, 40.0, 1e4, 1e6] {
            for p in [1e-18, 1e-9, 1e-3, 0.2, 0.5] {
                let low = quantile(a, Tail::Low(p));
                let high = quantile(a, Tail::High(p));
                // For tiny shapes, the smallest quantiles are below the smallest positive `f64`, so
                // they are not compared.
                if low > 1e-300 {
                    assert!((below(a, low) / p - 1.0).abs() < 1e-7, "{a} {p} {low}");
                }
                assert!((above(a, high) / p - 1.0).abs() < 1e-7, "{a} {p} {high}");
                assert!(low <= high * (1.0 + 1e-12), "{a} {p}: {low} {high}");
            }
        }
    }
}
