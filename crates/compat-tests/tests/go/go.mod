module exchange

go 1.19
