;; A link that is mostly quick, but for a spike now and then, as after a handover.
;; Settings: 0: usual delay in ms, 1: delay of a spike in ms, 2: share of frames that meet one.
(module
  (import "slipring" "uniform" (func $uniform (result f64)))
  (import "slipring" "param" (func $param (param i32) (result f64)))

  (func (export "slipring_abi") (result i32) (i32.const 1))

  (func (export "delay_ns") (param $now_ns i64) (param $len i32) (param $number i64) (result i64)
    (i64.trunc_sat_f64_s
      (f64.mul
        (f64.const 1e6)
        (call $param
          (f64.lt (call $uniform) (call $param (i32.const 2))))))))
