name x
samples 10
loss-level 0.86
prob delay
0 200
1 300
