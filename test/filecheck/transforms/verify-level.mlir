// RUN: lpu-opt -p verify-level{level=loop} --split-input-file --verify-diagnostics --allow-unregistered-dialect %s | filecheck %s

// CHECK: func.func @scalars
func.func @scalars(%a: f32) -> f32 {
  %b = "math.exp"(%a) <{fastmath = #arith.fastmath<none>}> : (f32) -> f32
  %c = "arith.addf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
  func.return %c : f32
}

// -----

// The fallback is not lowered: it may occur everywhere.
// CHECK: "lpu.host_call"
func.func @fallback(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = "lpu.host_call"(%a) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "no native form"}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// CHECK: 'test.op' may not occur at the loop level, which has only arith, builtin, func,
builtin.module {
  func.func @nested(%a: memref<4xf32>) {
    "test.op"(%a) : (memref<4xf32>) -> ()
    func.return
  }
}

// -----

// CHECK: 'somewhere.else' may not occur at the loop level
func.func @unregistered() {
  "somewhere.else"() : () -> ()
  func.return
}
