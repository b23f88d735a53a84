#loc1 = loc("x")
#loc2 = loc("programs.py":67:22 to :37)
#loc3 = loc("programs.py":115:37 to :53)
#loc5 = loc("<lambda>"(#loc2))
#loc6 = loc("programs"(#loc3))
#loc8 = loc(callsite(#loc5 at #loc6))
#loc10 = loc("jit(<lambda>)/top_k"(#loc8))
module @jit__lambda attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x9xf32> loc("x")) -> (tensor<4x3xf32> {jax.result_info = "result[0]"}, tensor<4x3xi32> {jax.result_info = "result[1]"}) {
    %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 3 : i64}, decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<4x9xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>) loc(#loc10)
    return %0#0, %0#1 : tensor<4x3xf32>, tensor<4x3xi32> loc(#loc11)
  } loc(#loc)
  func.func private @chlo.top_k.impl(%arg0: tensor<4x9xf32> loc("jit(<lambda>)/top_k"(#loc8))) -> (tensor<4x3xf32>, tensor<4x3xi32>) {
    %0 = stablehlo.iota dim = 1 : tensor<4x9xi32> loc(#loc10)
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32> loc("jit(<lambda>)/top_k"(#loc8)), %arg2: tensor<f32> loc("jit(<lambda>)/top_k"(#loc8)), %arg3: tensor<i32> loc("jit(<lambda>)/top_k"(#loc8)), %arg4: tensor<i32> loc("jit(<lambda>)/top_k"(#loc8))):
      %4 = stablehlo.compare GT, %arg1, %arg2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc10)
      stablehlo.return %4 : tensor<i1> loc(#loc10)
    }) : (tensor<4x9xf32>, tensor<4x9xi32>) -> (tensor<4x9xf32>, tensor<4x9xi32>) loc(#loc10)
    %2 = stablehlo.slice %1#0 [0:4, 0:3] : (tensor<4x9xf32>) -> tensor<4x3xf32> loc(#loc10)
    %3 = stablehlo.slice %1#1 [0:4, 0:3] : (tensor<4x9xi32>) -> tensor<4x3xi32> loc(#loc10)
    return %2, %3 : tensor<4x3xf32>, tensor<4x3xi32> loc(#loc10)
  } loc(#loc10)
} loc(#loc)
#loc = loc(unknown)
#loc4 = loc("programs.py":137:4 to 146:54)
#loc7 = loc("main"(#loc4))
#loc9 = loc(callsite(#loc6 at #loc7))
#loc11 = loc("jit(<lambda>)"(#loc9))
