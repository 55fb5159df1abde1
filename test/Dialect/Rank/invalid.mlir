// RUN: hyc-opt %s --split-input-file --verify-diagnostics

rank.program @p stage 0 slots 1 {
  // expected-error @+1 {{[arena.bound] has 8 bytes, less than its lower bound of 16}}
  rank.arena @a bytes 8 lower_bound 16
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    // expected-error @+1 {{[at.bounds] takes bytes 32 to 96 of @a, which has 64}}
    %0 = rank.at @a 32 : <16xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    // expected-error @+1 {{[at.alignment] begins at byte 2, expected a multiple of the element size 4}}
    %0 = rank.at @a 2 : <4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.func @forward() {
    // expected-error @+1 {{names @a, which is no rank.arena of its program}}
    %0 = rank.at @a 0 : <4xf32>
  }
}

// -----

// expected-error @+1 {{[buffer.strides] there are 1 strides for 2 dimensions}}
hyc.func @f(%x: !rank.buffer<2x2xf32, strides [2]>) {
  hyc.return
}

// -----

// expected-error @+1 {{[kernel.operands] has 1 stride lists for 2 operands}}
rank.kernel @k space [4] strides [array<i64: 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}

// -----

rank.kernel @k space [4] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  // expected-error @+1 {{[compute.function] gives "add" 1 operands, expected 2}}
  %y = rank.compute "add" %x : (f32) -> f32
  rank.yield %y : f32
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    // expected-error @+1 {{[call.kernel] names "fil", which is no kernel of the library}}
    rank.call "fil" %0 = : !rank.buffer<4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.collective @c 0 "all_reduce" over <{tp}> cause "x" why ""
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %row = rank.row @c
    // expected-error @+1 {{[start.shared] works on the private arena @a, expected a shared one}}
    %t = rank.start "all_reduce" "sum" %row, %0 count 4 : !rank.buffer<4xf32>
    rank.wait %t
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @layer(%x: !rank.buffer<4xf32>) {
  }
  rank.func @forward() {
    %0 = rank.at @a 0 : <8xf32>
    // expected-error @+1 {{[invoke.arguments]}}
    rank.invoke @layer(%0) : !rank.buffer<8xf32>
  }
}

// -----

// expected-error @+1 {{[kernel.reduced] does not combine, but reduces dimensions array<i64: 0>}}
rank.kernel @k space [4] reduced [0] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}

// -----

// expected-error @+1 {{[kernel.reduced] reduces dimensions array<i64: 1> of a space of 1, expected increasing ones in range}}
rank.kernel @k space [4] reduced [1] strides [array<i64: 1>, array<i64: 0>] results [f32] {
^bb0(%x: f32):
  %s = rank.combine sum %x : f32
  rank.yield %s : f32
}

// -----

rank.kernel @k space [4] reduced [0] strides [array<i64: 1>, array<i64: 0>] results [f32] {
^bb0(%x: f32):
  %s = rank.combine sum %x : f32
  // expected-error @+1 {{[kernel.combined] combines what comes from a combination}}
  %t = rank.combine max %s : f32
  rank.yield %t : f32
}

// -----

rank.kernel @k space [4] reduced [0] strides [array<i64: 1>, array<i64: 0>] results [f32] {
^bb0(%x: f32):
  %s = rank.combine sum %x : f32
  // expected-error @+1 {{[kernel.combined] computes with a combination and what differs along a reduced dimension}}
  %y = rank.compute "div" %x, %s : (f32, f32) -> f32
  rank.yield %y : f32
}

// -----

// expected-error @+1 {{[kernel.combined] result 0 has strides array<i64: 1>, expected 0 along the reduced dimensions array<i64: 0>}}
rank.kernel @k space [4] reduced [0] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  %s = rank.combine sum %x : f32
  rank.yield %s : f32
}

// -----

hyc.func @g(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{[cluster.results] gives 'tensor<8xf32>', expected the shape array<i64: 4>}}
  %0 = rank.cluster %x space [4, 8] reduced [1] dims [array<i64: 0, 1>] : (tensor<4x8xf32>) -> tensor<8xf32> {
  ^bb0(%e: f32):
    %s = rank.combine sum %e : f32
    rank.yield %s : f32
  }
  hyc.return
}

// -----

// expected-note @+1 {{kernel declared here}}
rank.kernel @k space [4] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    // expected-error @+1 {{[launch.mode] adds to old contents, but @k combines nothing}}
    rank.launch @k %0 = %0 {mode = #rank<mode add>} : !rank.buffer<4xf32>, !rank.buffer<4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  // expected-error @+1 {{[collective.kind] has kind "broadcast", expected all_reduce, reduce_scatter, all_gather, all_to_all or shift}}
  rank.collective @c 0 "broadcast" over <{tp}> cause "x" why ""
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a shared bytes 64
  rank.collective @c 0 "all_reduce" over <{tp}> cause "x" why ""
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %row = rank.row @c
    // expected-error @+1 {{[start.kind] is a broadcast by sum, expected all_reduce, reduce_scatter, all_gather, all_to_all or shift, by sum or max}}
    %t = rank.start "broadcast" "sum" %row, %0 count 4 : !rank.buffer<4xf32>
    rank.wait %t
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a shared bytes 64
  rank.collective @c 0 "all_to_all" over <{tp}> cause "x" why ""
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %row = rank.row @c
    // expected-error @+1 {{[start.operands] has 1 sources and 0 destinations}}
    %t = rank.start "all_to_all" "sum" %row, %0 count 2 : !rank.buffer<4xf32>
    rank.wait %t
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a shared bytes 64
  rank.collective @c 0 "shift" over <{tp}> cause "x" why ""
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %1 = rank.at @a 16 : <4xf32>
    %row = rank.row @c
    // expected-error @+1 {{[start.distance] is a shift without a distance, expected a distance of at least 1 of a shift alone}}
    %t = rank.start "shift" "sum" %row, %0 into %1 count 4 : !rank.buffer<4xf32> into !rank.buffer<4xf32>
    rank.wait %t
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @feeds bytes 64
  // expected-error @+1 {{[input.source] has source "tokens", expected one of token, next_token, own_token, next_own_token, position, presence, sample, random}}
  rank.input @ids source "tokens" bound 8 in @feeds at 0 : !rank.buffer<2x4xi64>
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @feeds bytes 64
  rank.input @ids source "token" bound 8 in @feeds at 0 : !rank.buffer<2x4xi64>
  // expected-error @+1 {{[entry.size] trains size 2 with 0 types, expected a size of at least 1 and a type for each of 1 inputs}}
  rank.entry @seq_2 trains "seq" 2 as [] inputs ["ids"] []
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @feeds bytes 64
  rank.input @ids source "token" bound 8 in @feeds at 0 : !rank.buffer<2x4xi64>
  // expected-error @+1 {{[entry.size] has input "ids" as !rank.buffer<2x8xi64>, which is no part of '!rank.buffer<2x4xi64>'}}
  rank.entry @seq_2 trains "seq" 2 as [!rank.buffer<2x8xi64>] inputs ["ids"] []
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <2x2xf32>
    %1 = rank.at @a 16 : <2x2xf32>
    // expected-error @+1 {{has sizes m -2, n 2, k 2, batch 1, expected none negative and a batch of 1 at least}}
    rank.gemm %0 = %1, %1 {m = -2 : i64, n = 2 : i64, k = 2 : i64, lda = 2 : i64, ldb = 2 : i64, ldc = 2 : i64} : !rank.buffer<2x2xf32>, !rank.buffer<2x2xf32>, !rank.buffer<2x2xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    // expected-error @+1 {{[repeat.times] is made 0 times, expected 1 at least}}
    rank.repeat 0 {
      %0 = rank.at @a 0 : <4xf32>
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    // expected-error @+1 {{[repeat.body] holds rank.repeat, expected addresses, kernels and checks}}
    rank.repeat 2 {
      rank.repeat 2 {
        %0 = rank.at @a 0 : <4xf32>
      }
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    rank.repeat 5 {
      // expected-error @+1 {{[at.bounds] takes bytes 64 to 80 of @a, which has 64}}
      %0 = rank.at @a 0 step 16 : <4xf32>
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    // expected-error @+1 {{[at.turn] has step 16, but stands in no rank.repeat}}
    %0 = rank.at @a 0 step 16 : <4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    rank.repeat 2 {
      // expected-error @+1 {{[at.turn] has period 1 and step 16, expected a period of 2 at least, and none without a step}}
      %0 = rank.at @a 0 step 16 period 1 : <4xf32>
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    rank.repeat 2 {
      // expected-error @+1 {{[at.alignment] goes on by 6 bytes, expected a multiple of the element size 4}}
      %0 = rank.at @a 0 step 6 : <4xf32>
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4x4xf32>
    rank.repeat 4 {
      // expected-error @+1 {{[turn.period] has period 2 and step 0, expected a period of 2 at least, and none without a step}}
      %1 = rank.turn %0 + 8 step 0 period 2 : <4x4xf32> to <4xf32>
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4x4xf32>
    rank.repeat 4 {
      // expected-error @+1 {{whose elements differ}}
      %1 = rank.turn %0 + 0 step 4 : <4x4xf32> to <4xi32>
    }
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4x4xf32>
    rank.repeat 4 {
      // expected-error @+1 {{[turn.bounds] takes elements -4 to 12 of 16}}
      %1 = rank.turn %0 + 8 step -4 : <4x4xf32> to <4xf32>
    }
  }
}
