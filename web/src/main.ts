import uPlot from "uplot"; import "uplot/dist/uPlot.min.css"; console.log(uPlot);
