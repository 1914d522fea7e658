import{a,b}from"./chunk-CBDSFYUZ.js";import"./chunk-E3PL6DBP.js";import"./chunk-23RQ3TTF.js";import"./chunk-ENC3UZXF.js";export{a as OutcomeBar,b as default};
