import{a,b}from"./chunk-KFBP5ADS.js";import"./chunk-6HAVKDUI.js";import"./chunk-QTA3YPAH.js";import"./chunk-ENC3UZXF.js";export{a as OutcomeBar,b as default};
