import{t as a,u as b}from"./chunk-UCDN2DBN.js";import"./chunk-M6TUNOW5.js";export{a as OutcomeBar,b as default};
