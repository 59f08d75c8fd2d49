//! The standard normal distribution: probabilities and quantiles, accurate in both tails.

use super::Tail;

/// The probability of a value of at most `z`, with full relative accuracy even for tiny
/// probabilities.
pub(crate) fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

/// The probability density at `z`.
pub(crate) fn density(z: f64) -> f64 {
    const INV_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
    INV_SQRT_TAU * libm::exp(-0.5 * z * z)
}

/// The quantile: the value with the probability of `tail` below it (`Tail::Low`) or above it
/// (`Tail::High`). Uses rational approximations with a relative error near 1e-16 (M. Wichura,
/// algorithm AS 241, Applied Statistics 37, 1988).
pub(crate) fn quantile(tail: Tail) -> f64 {
    let (p, sign) = match tail {
        Tail::Low(p) => (p, 1.0),
        Tail::High(q) => (q, -1.0),
    };
    let from_median = p - 0.5;
    if from_median.abs() <= 0.425 {
        let r = 0.180_625 - from_median * from_median;
        return sign * from_median * horner(&CENTRE_NUMERATOR, r) / horner(&CENTRE_DENOMINATOR, r);
    }
    let (p, sign) = if from_median < 0.0 { (p, -sign) } else { (1.0 - p, sign) };
    let r = libm::sqrt(-libm::log(p));
    let z = if r <= 5.0 {
        horner(&TAIL_NUMERATOR, r - 1.6) / horner(&TAIL_DENOMINATOR, r - 1.6)
    } else {
        horner(&FAR_TAIL_NUMERATOR, r - 5.0) / horner(&FAR_TAIL_DENOMINATOR, r - 5.0)
    };
    sign * z
}

/// The value at `x` of the polynomial with these coefficients, lowest power first.
fn horner(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}

const CENTRE_NUMERATOR: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_DENOMINATOR: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const TAIL_NUMERATOR: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const TAIL_DENOMINATOR: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_TAIL_NUMERATOR: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_TAIL_DENOMINATOR: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_7e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_inverts_the_probability_in_both_tails() {
        let mut p = 0.5;
        while p > 1e-40 {
            let z = quantile(Tail::Low(p));
            // A relative error in z results in a relative error in the tail's probability that is
            // about z squared times as large.
            let error = below(z) / p - 1.0;
            assert!(error.abs() < 6e-16 * (8.0 + z * z), "{p:e} {z}: {error:e}");
            assert_eq!(quantile(Tail::High(p)), -z);
            p *= 0.83;
        }
    }

    #[test]
    fn quantile_agrees_with_printed_tables() {
        assert!((quantile(Tail::Low(0.975)) - 1.959_963_984_540_054).abs() < 1e-14);
        assert!((quantile(Tail::High(1e-9)) - 5.997_807_015_007_687).abs() < 1e-13);
    }

    #[test]
    fn density_is_the_slope_of_the_probability() {
        for z in [-3.0, -1.0, 0.0, 0.5, 2.5] {
            let slope = (below(z + 1e-5) - below(z - 1e-5)) / 2e-5;
            assert!((slope - density(z)).abs() < 1e-9, "{z}");
        }
    }
}
