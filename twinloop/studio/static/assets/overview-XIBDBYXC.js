import{a,b}from"./chunk-ZLKPCCNY.js";import"./chunk-E3PL6DBP.js";import"./chunk-IIFJHVVL.js";import"./chunk-ENC3UZXF.js";export{a as OutcomeBar,b as default};
