from workloads.tax import X
print(X)
