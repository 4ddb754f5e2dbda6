-- For wrk: every connection asks, and then thinks for a while that is drawn anew each time. ANCHOR_BENCH_THINK is the
-- mean, in milliseconds: many connections together ask at a steady rate, at moments that nobody has ordered.
local mean = tonumber(os.getenv("ANCHOR_BENCH_THINK"))

function init()
  math.randomseed(1)
end

function delay()
  return math.floor(-mean * math.log(1 - math.random()) + 0.5)
end
